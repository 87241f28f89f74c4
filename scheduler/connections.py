"""The connections that an execution's handler gets: its tenant's schema, its actor, its id."""

from dataclasses import dataclass
from typing import Final, cast
from uuid import UUID

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor
from tenantcron.core.values import JsonObject
from tenantcron.store.claiming import Claimed
from tenantcron.store.handler_transactions import HandlerTransactions, PoolSize
from tenantcron.store.targets import Target
from tenantcron.targets.execution import AsyncTransaction, Transaction
from tenantcron.targets.isolation.orders import Portable

# What a process needs for its first transaction, so that no process has to import it.
WARM: Final = (__name__, "psycopg", "sqlalchemy.dialects.postgresql.psycopg")


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

    def portable(self) -> Portable:
        """Return how a process of the handler's own opens the same transactions."""
        target = dict(self.transactions.target.parameters)
        arguments: JsonObject = {"schema": self.claimed.schema_name, "target": {**target}}
        return Portable(f"{__name__}:{in_process.__name__}", arguments)

    def _who(self) -> Attribution:
        return Attribution(self.claimed.actor, self.claimed.id)


@dataclass(frozen=True, slots=True)
class ProcessTransactions:
    """Transactions of the one execution that a process runs."""

    transactions: HandlerTransactions
    schema: str
    who: Attribution

    def begin(self) -> AsyncTransaction:
        """Begin one in the running event loop."""
        return self.transactions.begin(self.schema, self.who)

    def begin_plain(self) -> Transaction:
        """Begin one in the current thread."""
        return self.transactions.begin_plain(self.schema, self.who)


def in_process(arguments: JsonObject, actor: Actor, execution_id: UUID) -> ProcessTransactions:
    """Return the transactions of an execution in a process of its own; nothing is opened yet."""
    parameters = cast("dict[str, str]", arguments["target"])
    transactions = HandlerTransactions(Target(parameters), PoolSize(kept=1, more=4))
    return ProcessTransactions(
        transactions, str(arguments["schema"]), Attribution(actor, execution_id)
    )


@dataclass(frozen=True, slots=True)
class HandlerConnections:
    """Gives every execution its transactions."""

    transactions: HandlerTransactions

    def __call__(self, claimed: Claimed) -> ExecutionTransactions:
        """Return the transactions of one execution; nothing is opened yet."""
        return ExecutionTransactions(self.transactions, claimed)
