"""Claim: start pending executions within the cluster's limits, or skip them with a reason.

`store/steps/claiming.py` has the protocol. This module has the batches and the log lines.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.model import ActorType
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.rows import workers
from tenantcron.store.steps import claiming, glances, requirements
from tenantcron.store.steps.claiming import Claim, Claimed, Skipped, actor_of

log = structlog.get_logger(__name__)

# A replica can start this many executions within a fraction of a second, so other replicas get
# their share of what has just become due. With a larger backlog sharing does not matter, and a
# larger batch spreads the cost of a claim over more executions.
STARTS_A_BATCH = 800
STARTS_A_LARGE_BATCH = 1600


class Sweep:
    """Iterates over the tenants with pending executions, if one claim cannot consider them all.

    It stays where the slots run out, so those tenants come first when slots are free again.
    """

    def __init__(self) -> None:
        self.after = ""
        # Whether the sweep began at the first tenant and has found nothing to do since.
        self._is_complete = False

    def advance(self, claim: Claim) -> bool:
        """Record a claim, and return whether another claim may find something to do."""
        if claim.more:
            self.after, self._is_complete = claim.last_tenant, False
            return True
        if not claim.slots:
            self._is_complete = False
            return False
        self._is_complete = self._is_complete or not self.after
        self.after = claim.last_tenant
        return bool(self.after) or not self._is_complete


async def claim_batch(replica: Replica, batch: int = STARTS_A_BATCH, after: str = "") -> Claim:
    """Start at most a batch of pending executions, and end those that may not wait longer."""
    skipped: tuple[Skipped, ...] = ()
    async with replica.database.transaction(by_key=True) as connection:
        at = replica.clock()
        requires = await _requires(connection, replica)
        claim = await _claim(connection, replica, requires, batch, after)
        if claim.has_undecided and await requirements.decide(connection) and not claim.more:
            requires = await _requires(connection, replica)
            claim = await _claim(connection, replica, requires, batch, after)
        if claim.must_replace:
            await claiming.make_room(connection, requires, at)
        if claim.full_up or not claim.slots:
            skipped = await claiming.skip_late(
                connection, claim.full_up, requires=requires, all_tenants=not claim.slots, at=at
            )
        if claim.is_short and replica.slot_shortage.is_due():
            await workers.want(connection, replica.worker_id, requires, at)
        # In this transaction, so that an error releases the claimed executions.
        ids = {execution.definition_id for execution in claim.started}
        await replica.definitions.read(connection, ids)
    claim = replace(claim, skipped=claim.skipped + skipped)
    claim = replace(claim, started=_acting_as(replica, claim.started))
    replica.counts.note_claim(claim)
    report_skipped(claim.skipped)
    if claim.leaves_slots:
        await glances.notify_work(replica.database, claiming.FOR_OTHERS)
    return claim


def _acting_as(replica: Replica, started: tuple[Claimed, ...]) -> tuple[Claimed, ...]:
    """Replace a scheduler actor by this replica's: another service may have fired the execution."""
    own = replica.actor.id
    if all(
        claimed.actor.id == own or claimed.actor.type is not ActorType.SCHEDULER
        for claimed in started
    ):
        return started
    return tuple(
        claimed._replace(actor=actor_of(own, claimed.actor.type.value, claimed.actor.source))
        if claimed.actor.type is ActorType.SCHEDULER
        else claimed
        for claimed in started
    )


async def _claim(
    connection: AsyncConnection, replica: Replica, requires: Sequence[str], batch: int, after: str
) -> Claim:
    return await claiming.claim(
        connection,
        replica.worker_id,
        batch=batch,
        lease=replica.settings.lease,
        at=replica.clock(),
        requires=requires,
        after=after,
    )


async def _requires(connection: AsyncConnection, replica: Replica) -> Sequence[str]:
    """Return the requirements that this replica meets; a catch-all meets all unnamed ones."""
    own = replica.capabilities
    if not own.patterns:
        return own.named
    return own.among(await requirements.unnamed(connection, replica.clock()))


async def glance_at_requirements(replica: Replica) -> Sequence[str]:
    """Return the same without a transaction (see `glances`)."""
    own = replica.capabilities
    if not own.patterns:
        return own.named
    return own.among(await requirements.glance_at_unnamed(replica.database, replica.clock()))


async def release(replica: Replica, claimed: Sequence[Claimed]) -> None:
    """Release claimed executions that this replica will not start."""
    async with replica.database.transaction(by_key=True) as connection:
        given = await claiming.release(connection, claimed)
    log.info("executions_given_back", executions=given)


async def release_unrunnable(
    replica: Replica, claimed: Sequence[Claimed], requires: Sequence[str]
) -> None:
    """Release claimed executions that this replica cannot run; no attempt is used up.

    Their rows had a wrong requirement. They get the requirements of their definitions.
    """
    async with replica.database.transaction(by_key=True) as connection:
        given = await claiming.release(connection, claimed, requires)
    log.warning("executions_not_runnable", executions=given, requires=sorted(set(requires)))


async def release_unstarted(replica: Replica, known: Collection[UUID]) -> None:
    """Release executions whose lease is not known here: the response to their claim was lost."""
    async with replica.database.transaction() as connection:
        found = await claiming.unstarted(connection, replica.worker_id, known)
        given = await claiming.release(connection, found) if found else 0
    if given:
        log.info("executions_given_back", executions=given)


def report_skipped(executions: Sequence[Skipped]) -> None:
    """Log executions that ended without a start."""
    for skipped in executions:
        log.info(
            f"execution_{skipped.state.lower()}",
            tenant=skipped.tenant_id,
            schedule=skipped.schedule_name,
            execution=str(skipped.id),
            reason_code=skipped.reason_code,
            reason=skipped.reason,
        )
