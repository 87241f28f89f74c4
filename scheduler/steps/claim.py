"""Claim: what waits starts, within the limits of the whole cluster, or is skipped with a reason.

`store/steps/claiming.py` has the protocol. Here are the batches and the log lines.
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

# A claim takes what one replica can start within a fraction of a second, so that the others get
# their part of what has just come due. When even more waits, that is of no use any longer, and
# twice as many share the cost of one claim.
STARTS_A_BATCH = 800
STARTS_A_LARGE_BATCH = 1600


class Sweep:
    """Goes through the tenants when more of them have something waiting than one claim looks at.

    Where the slots run out, it stays: those tenants come first when there are slots again.
    """

    def __init__(self) -> None:
        self.after = ""
        # Nothing was done since the first tenant, so whoever comes to the last one has seen all.
        self._is_whole = False

    def goes_on(self, claim: Claim) -> bool:
        """Take note of a claim; return whether another one may find something to do."""
        if claim.more:
            self.after, self._is_whole = claim.last_tenant, False
            return True
        if not claim.slots:
            self._is_whole = False
            return False
        self._is_whole = self._is_whole or not self.after
        self.after = claim.last_tenant
        return bool(self.after) or not self._is_whole


async def claim_batch(replica: Replica, batch: int = STARTS_A_BATCH, after: str = "") -> Claim:
    """Start what may start, at most a batch of it, and end what may not wait."""
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
                connection, claim.full_up, requires=requires, everybody=not claim.slots, at=at
            )
        if claim.is_short and replica.hunger.is_due():
            await workers.want(connection, replica.worker_id, requires, at)
        # In here: what cannot be read must not stay claimed.
        await replica.definitions.read(connection, {one.definition_id for one in claim.started})
    claim = replace(claim, skipped=claim.skipped + skipped)
    claim = replace(claim, started=_acting_as(replica, claim.started))
    replica.counts.note_claim(claim)
    report_skipped(claim.skipped)
    if claim.leaves_slots:
        await glances.tell_work(replica.database, claiming.FOR_OTHERS)
    return claim


def _acting_as(replica: Replica, started: tuple[Claimed, ...]) -> tuple[Claimed, ...]:
    """Let what another service has fired be done by the service that runs it."""
    own = replica.actor.id
    if all(one.actor.id == own or one.actor.type is not ActorType.SCHEDULER for one in started):
        return started
    return tuple(
        one._replace(actor=actor_of(own, one.actor.type.value, one.actor.source))
        if one.actor.type is ActorType.SCHEDULER
        else one
        for one in started
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
    """Return the requirements that this replica takes: its own, and for a catch-all the rest."""
    own = replica.capabilities
    if not own.patterns:
        return own.named
    return own.among(await requirements.unnamed(connection, replica.clock()))


async def glance_at_requirements(replica: Replica) -> Sequence[str]:
    """Return the same outside of a transaction, see `glances`."""
    own = replica.capabilities
    if not own.patterns:
        return own.named
    return own.among(await requirements.glance_at_unnamed(replica.database, replica.clock()))


async def give_back(replica: Replica, claimed: Sequence[Claimed]) -> None:
    """Let others start what this replica has claimed and will not start."""
    async with replica.database.transaction(by_key=True) as connection:
        given = await claiming.give_back(connection, claimed)
    log.info("executions_given_back", executions=given)


async def give_back_unrunnable(
    replica: Replica, claimed: Sequence[Claimed], requires: Sequence[str]
) -> None:
    """Release what this replica has claimed and cannot run; no attempt is used up.

    Their rows said otherwise, so they get the requirement that their definition has.
    """
    async with replica.database.transaction(by_key=True) as connection:
        given = await claiming.give_back(connection, claimed, requires)
    log.warning("executions_not_runnable", executions=given, requires=sorted(set(requires)))


async def give_back_unstarted(replica: Replica, known: Collection[UUID]) -> None:
    """Let others start what a claim has taken whose answer got lost: it is not among the known."""
    async with replica.database.transaction() as connection:
        found = await claiming.unstarted(connection, replica.worker_id, known)
        given = await claiming.give_back(connection, found) if found else 0
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
            reason=skipped.reason,
        )
