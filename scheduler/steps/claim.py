"""Claim: start pending executions within the cluster's limits, or skip them with a reason.

`store/steps/claiming.py` has the protocol. This module has the batches and the log lines.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.model import ActorType
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.rows import workers
from tenantcron.store.steps import claiming, glances, requirements, sharing
from tenantcron.store.steps.claiming import Claim, Claimed, Skipped, actor_of

log = structlog.get_logger(__name__)

# A replica can start this many executions within a fraction of a second, so other replicas get
# their share of what has just become due. With a larger backlog sharing does not matter, and a
# larger batch spreads the cost of a claim over more executions.
STARTS_A_BATCH = 800
STARTS_A_LARGE_BATCH = 1600


class Forms(NamedTuple):
    """The form of a claim's statement, see `claim.sql`."""

    shares: bool
    quotas: bool


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
    demand = replica.demand
    was_scarce = demand.is_scarce
    claim = await _claim(replica, batch, after, shares=was_scarce, quotas=demand.is_at_quota)
    if claim.is_over_quota:
        claim = await _claim(replica, batch, after, shares=was_scarce, quotas=True)
    if claim.is_scarce and not was_scarce:
        claim = await _claim(replica, batch, after, shares=True, quotas=True)
    demand.is_scarce, demand.is_at_quota = claim.is_scarce, _needs_quotas(claim)
    await report(replica, claim)
    return claim


class NotSimpleError(Exception):
    """More is pending than a claim in the plain form can decide alone: roll back."""


async def claim_within(connection: AsyncConnection, replica: Replica, batch: int) -> Claim:
    """Claim in the caller's transaction if that only starts executions; raise a NotSimpleError.

    The statement skips locked rows, so the caller may hold other locks.
    """
    requires = await _requires(connection, replica)
    forms = Forms(shares=False, quotas=False)
    claim = await _claim_for(connection, replica, requires, batch, "", forms=forms)
    waits = claim.must_replace or claim.full_up or claim.leaves_slots or not claim.slots
    if waits or claim.has_undecided or _needs_quotas(claim):
        raise NotSimpleError
    if await _is_scarce(connection, replica, claim, requires, batch):
        raise NotSimpleError
    return await complete(connection, replica, claim, requires)


async def _claim(replica: Replica, batch: int, after: str, *, shares: bool, quotas: bool) -> Claim:
    """Claim in one of the forms.

    The plain one is undone if slots turn out to be scarce, the one without quotas if a tenant
    exceeds its quota.
    """
    forms = Forms(shares=shares, quotas=quotas)
    async with replica.database.transaction(by_key=True) as connection:
        requires = await _requires(connection, replica)
        claim = await _claim_for(connection, replica, requires, batch, after, forms=forms)
        if claim.has_undecided and await requirements.decide(connection) and not claim.more:
            requires = await _requires(connection, replica)
            claim = await _claim_for(connection, replica, requires, batch, after, forms=forms)
        if not (shares or quotas) and _needs_quotas(claim):
            await connection.rollback()
            return replace(claim, started=(), skipped=(), is_over_quota=True)
        if not shares and await _is_scarce(connection, replica, claim, requires, batch):
            await connection.rollback()
            return replace(claim, started=(), is_scarce=True)
        claim = await complete(connection, replica, claim, requires)
        if claim.is_short and replica.slot_shortage.is_due():
            await workers.want(connection, replica.worker_id, requires, replica.clock())
    return claim


def _needs_quotas(claim: Claim) -> bool:
    """Whether the quotas of starts matter: also for the reason why an execution waited too long."""
    late = (ReasonCode.NO_SCHEDULER, ReasonCode.START_QUOTA)
    has_late = any(skipped.reason_code in late for skipped in claim.skipped)
    return claim.is_over_quota or claim.is_at_quota or has_late


async def _is_scarce(
    connection: AsyncConnection,
    replica: Replica,
    claim: Claim,
    requires: Sequence[str],
    batch: int,
) -> bool:
    """Whether a claim in the plain form has left executions pending whose order matters."""
    limited = [tenant for tenant in claim.full_up if tenant.has_no_slot]
    if claim.is_scarce or (claim.has_own and not claim.slots):
        return True
    if any(tenant.reason_code == ReasonCode.LIMIT for tenant in limited):
        return True
    tenant_ids = {tenant.tenant_id for tenant in limited}
    if len(claim.started) >= batch:
        tenant_ids |= {execution.tenant_id for execution in claim.started}
    if not tenant_ids or not replica.demand.may_be_mixed():
        return False
    if await sharing.has_mixed(connection, tenant_ids, requires, replica.clock()):
        return True
    replica.demand.note_uniform()
    return False


async def complete(
    connection: AsyncConnection, replica: Replica, claim: Claim, requires: Sequence[str]
) -> Claim:
    """Replace and skip executions as the claim has found, and read the definitions of its starts.

    In the transaction of the claim, so that an error releases the claimed executions.
    """
    at = replica.clock()
    skipped: tuple[Skipped, ...] = ()
    if claim.must_replace:
        await claiming.make_room(connection, requires, at)
    # An execution that waits for the quota of its tenant may start in the next minute.
    full_up = [tenant for tenant in claim.full_up if not tenant.is_at_quota]
    if full_up or not claim.slots:
        skipped = await claiming.skip_late(
            connection, full_up, requires=requires, all_tenants=not claim.slots, at=at
        )
    # Tasks have large payloads: the loop reads them when no other replica waits for the lock.
    ids = {execution.definition_id for execution in claim.started if not execution.is_task}
    await replica.definitions.read(connection, ids)
    return replace(
        claim,
        started=_acting_as(replica, claim.started),
        skipped=claim.skipped + skipped,
    )


async def report(replica: Replica, claim: Claim) -> None:
    """Count and log what a committed claim did, and wake other replicas if it left them slots."""
    replica.counts.note_claim(claim)
    report_skipped(claim.skipped)
    if claim.leaves_slots:
        await glances.notify_work(replica.database, claiming.FOR_OTHERS)


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


async def _claim_for(  # noqa: PLR0913 -- the parameters of the statement
    connection: AsyncConnection,
    replica: Replica,
    requires: Sequence[str],
    batch: int,
    after: str,
    *,
    forms: Forms,
) -> Claim:
    return await claiming.claim(
        connection,
        replica.worker_id,
        batch=batch,
        lease=replica.settings.lease,
        at=replica.clock(),
        requires=requires,
        after=after,
        shares=forms.shares,
        quotas=forms.quotas,
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
    given = await release_as(replica, claimed, requires)
    log.warning("executions_not_runnable", executions=given, requires=sorted(set(requires)))


async def release_as(replica: Replica, claimed: Sequence[Claimed], requires: Sequence[str]) -> int:
    """Release claimed executions with other requirements, and return how many."""
    async with replica.database.transaction(by_key=True) as connection:
        return await claiming.release(connection, claimed, requires)


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
