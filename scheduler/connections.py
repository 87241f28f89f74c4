"""The connections that an execution's handler gets: its tenant's schema, its actor, its id."""

from dataclasses import dataclass

from tenantcron.actor.attribution import Attribution
from tenantcron.store.claiming import Claimed
from tenantcron.store.handler_transactions import HandlerTransactions
from tenantcron.targets.execution import AsyncTransaction, Transaction


@dataclass(frozen=True, slots=True)
class ExecutionTransactions:
    """Transactions of one claimed execution.

    They are attributed to what was claimed, not to the context: a handler may ask for one in a
    thread of its own, where the context is empty.
    """

    transactions: HandlerTransactions
    claimed: Claimed

    def begin(self) -> AsyncTransaction:
        """Begin one in the running event loop."""
        return self.transactions.begin(self.claimed.schema_name, self._who())

    def begin_plain(self) -> Transaction:
        """Begin one in the current thread."""
        return self.transactions.begin_plain(self.claimed.schema_name, self._who())

    def _who(self) -> Attribution:
        return Attribution(self.claimed.actor, self.claimed.id)


@dataclass(frozen=True, slots=True)
class HandlerConnections:
    """Gives every execution its transactions."""

    transactions: HandlerTransactions

    def __call__(self, claimed: Claimed) -> ExecutionTransactions:
        """Return the transactions of one execution; nothing is opened yet."""
        return ExecutionTransactions(self.transactions, claimed)
