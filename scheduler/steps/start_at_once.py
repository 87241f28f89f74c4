"""Start at once: fire and claim in one transaction, while a replica has nothing else to start.

Fire and claim are two transactions, so that a large batch keeps no cursors locked while it waits
for the claim lock. A few occurrences that become due on an idle replica would pay for both commits.
They are fired and claimed in one transaction instead, with prepared statements:

- While it holds cursors, the replica waits for no other lock: it takes the claim lock only if that
  is free, and the statement of the claim skips locked rows. Results lock their executions first and
  cursors after that, so waiting would be a deadlock.
- The claim is the ordinary statement in its plain form, with all limits. If there is more to decide
  than what starts (slots are scarce, a tenant has reached its quota, an execution is replaced), the
  transaction is rolled back. The replica then fires, and claims as usual.
- A crash before the commit changes nothing: the cursors stay due. After the commit the executions
  are RUNNING with a lease, and are recovered when it expires, as after any claim.
"""

from typing import NamedTuple

from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.claim import NotSimpleError, claim_within, report
from tenantcron.scheduler.steps.fire import Fired, fire_batch, fire_few_and
from tenantcron.store.connection.locks import Lock, try_lock
from tenantcron.store.connection.prepared import FEW
from tenantcron.store.steps.claiming import Claim


class FiredAndClaimed(NamedTuple):
    """A fired batch, and its claim; None if that is left to the claim loop."""

    fired: Fired
    claim: Claim | None = None

    @property
    def executions(self) -> int:
        """Return how many executions were fired."""
        return self.fired.executions

    @property
    def is_all_started(self) -> bool:
        """Whether nothing that was fired is left to start or to skip."""
        claim = self.claim
        if claim is None:
            return not self.executions
        return len(claim.started) == self.executions and not (
            claim.skipped or claim.must_replace or claim.last_tenant
        )


async def fire_and_claim(replica: Replica, room: int) -> FiredAndClaimed:
    """Fire a small batch and claim; the claim loop takes over if more is due."""
    claims: list[Claim] = []

    async def claim(connection: AsyncConnection, ready: int) -> None:
        if 0 < ready <= room and await try_lock(connection, Lock.CLAIM):
            claims.append(await claim_within(connection, replica, min(FEW, room)))

    try:
        fired = await fire_few_and(replica, claim)
    except (NotSimpleError, DataError, IntegrityError):
        return FiredAndClaimed(await fire_batch(replica))
    if not claims:
        return FiredAndClaimed(fired)
    await report(replica, claims[0])
    return FiredAndClaimed(fired, claims[0])
