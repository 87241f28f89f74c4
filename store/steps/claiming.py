"""Claim, the database side: the step from pending to running.

Only this step sets executions to RUNNING, and only one replica at a time runs it, under a lock that
ends with the transaction (see `locks`). It counts the running rows with a separate statement after
taking the lock, so it sees every start that was committed before. Executions may end concurrently,
which only frees slots. So the limits are never exceeded, with any number of replicas, and there is
no counter that could diverge from the rows.

The last quarter of the cluster's slots is reserved for tenants without running executions, one slot
per such tenant. A tenant uses them only for its first executions, up to its weight. Without this,
four tenants whose targets hang would hold all slots at the default limits of 20 and 5.

A claim considers only executions whose requirement the replica has. So a replica never starts an
execution that it cannot run, and executions of other replicas cost it nothing. The limits and the
order still apply to the cluster: they count all running executions.

An execution that may not wait and gets no slot is SKIPPED in the same statement, with the reason.
One that may wait stays pending; so does a suspect for which this replica has no room (see
`suspects`). If the statement cannot read something, it fails and nothing starts: the check fails
closed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.names import TenantId
from tenantcron.core.quotas import QUOTAS
from tenantcron.schedules.execution_reasons import ReasonCode, reason_text
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.connection.locks import Lock, take_lock
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.limits import KEPT_SHARE
from tenantcron.store.steps import suspects
from tenantcron.store.steps.sharing import LEAST_CHARGE, SCARCE_FOR
from tenantcron.store.steps.statements import statement

# Decisions per statement, starts and skips together. The LIMIT also gives the planner an upper
# bound for the number of rows.
MOST_VERDICTS = 1000
# The pairs of requirement and tenant that one claim considers; the next one continues after them.
PAIRS_A_CLAIM = 500
# Schedulers listen on this channel for work; only a hint.
WORK = "tenantcron_work"
CANCEL = "cancel"
# Executions of lost replicas are pending again, or have ended.
RECOVERED = "recovered"
LIMITS = "limits"
# A replica has fired executions that it cannot run itself, or has left slots to others.
FOR_OTHERS = "for others"
# Tasks were submitted: some are due now, or soon. `tenantcron.submit_tasks_at` sends them.
TASK = "task"
TASK_SOON = "task soon"
# How long the unmet demand of a replica keeps its places in the cluster's order.
HUNGRY_FOR = timedelta(seconds=6)

# An execution and the token of the claim that started it.
Lease: TypeAlias = tuple[UUID, UUID]


class Claimed(NamedTuple):
    """An execution that this replica may run now, for as long as it keeps the lease."""

    id: UUID
    scheduled_for: datetime
    tenant_id: TenantId
    schema_name: str
    schedule_id: UUID
    schedule_name: str
    saga_name: str
    definition_id: UUID
    attempt: int
    attempts_allowed: int
    # How many workers were lost with it, and how many of its last attempts in a row were lost.
    losses: int
    suspicion: int
    actor: Actor
    lease_token: UUID
    started_at: datetime

    @property
    def is_task(self) -> bool:
        """Whether a client submitted it: a task has no schedule but itself."""
        return self.schedule_id == self.id

    @property
    def lease(self) -> Lease:
        """The unique id of the lease: all executions of one claim have the same token."""
        return self.id, self.lease_token


# The fields that are columns of the statement.
_OWN = tuple(name for name in Claimed._fields if name not in ("actor", "lease_token", "started_at"))


@dataclass(frozen=True, slots=True)
class Skipped:
    """An execution that ended without starting."""

    id: UUID
    tenant_id: TenantId
    schedule_name: str
    state: State
    reason_code: str
    detail: str | None = None

    @property
    def reason(self) -> str | None:
        """The reason in words."""
        return reason_text(self.reason_code, self.detail)


@dataclass(frozen=True, slots=True)
class FullUp:
    """A tenant that cannot start more; for a closed one, no execution may stay pending."""

    tenant_id: TenantId
    reason_code: str
    detail: str

    @property
    def is_closed(self) -> bool:
        """Whether the tenant may not start anything, so its pending executions end."""
        return self.reason_code == ReasonCode.TENANT_INACTIVE

    @property
    def is_at_quota(self) -> bool:
        """Whether the tenant has started as many executions in this minute as it may."""
        return self.reason_code == ReasonCode.START_QUOTA

    @property
    def has_no_slot(self) -> bool:
        """Whether the tenant waits for a slot."""
        return not (self.is_closed or self.is_at_quota)


@dataclass(frozen=True, slots=True)
class Claim:
    """The result of a claim."""

    started: tuple[Claimed, ...]
    skipped: tuple[Skipped, ...]
    # The free slots of the cluster, and the tenants that have none.
    slots: int
    full_up: tuple[FullUp, ...]
    # A `cancel_running` schedule has an execution that waits for the running one.
    must_replace: bool
    # Where the next claim continues if this one did not see all tenants; else empty.
    last_tenant: str
    # Whether anything was pending that the replica can run.
    has_own: bool
    # Slots were left to executions of other replicas that come first.
    leaves_slots: bool
    # The requirement of executions of the previous release has to be decided.
    has_undecided: bool
    # Slots are scarce. A claim in the plain form has decided nothing then.
    is_scarce: bool
    # A claim without quotas has started more for a tenant than its quota allows: undo it.
    is_over_quota: bool
    # The time of the claim.
    at: datetime
    # Seconds between when each started execution could have started and its start.
    lateness: tuple[float, ...] = ()

    @property
    def is_at_quota(self) -> bool:
        """Whether a tenant with pending executions may start no more in this minute."""
        return any(tenant.is_at_quota for tenant in self.full_up)

    @property
    def seconds_to_next_minute(self) -> float:
        """The seconds from the claim until quotas of starts count from zero again."""
        return 60 - self.at.second - self.at.microsecond / 1e6

    @property
    def is_short(self) -> bool:
        """Whether the replica could have started more if there had been slots."""
        is_full = any(tenant.has_no_slot for tenant in self.full_up)
        return self.has_own and (not self.slots or is_full or self.leaves_slots)

    @property
    def more(self) -> bool:
        """Whether another claim of the same tenants may find something to do."""
        return bool(self.started or self.skipped or self.must_replace)


# Parameters of a claim that all replicas share: bounds, and reasons that it may write.
CLAIM_CONSTANTS: Final[Mapping[str, object]] = {
    "most": MOST_VERDICTS,
    "together": suspects.TOGETHER,
    "alone": suspects.ALONE,
    "hungry": HUNGRY_FOR,
    "kept": KEPT_SHARE,
    "scarce_for": SCARCE_FOR,
    "least_charge": LEAST_CHARGE.total_seconds(),
    "starts_per_minute": QUOTAS["starts_per_minute"].default,
    "no_scheduler": ReasonCode.NO_SCHEDULER.value,
    "removed": ReasonCode.REMOVED.value,
    "disabled": ReasonCode.DISABLED.value,
    "still_running": ReasonCode.STILL_RUNNING.value,
    "replaced": ReasonCode.REPLACED.value,
    "tenant_inactive": ReasonCode.TENANT_INACTIVE.value,
    "tenant_limit": ReasonCode.TENANT_LIMIT.value,
    "limit": ReasonCode.LIMIT.value,
    "start_quota": ReasonCode.START_QUOTA.value,
}


async def claim(  # noqa: PLR0913 -- the parameters of one statement
    connection: AsyncConnection,
    worker_id: str,
    *,
    batch: int,
    lease: timedelta,
    at: datetime | None,
    requires: Sequence[str],
    after: str = "",
    pairs: int | None = None,
    too_late: ReasonCode = ReasonCode.NO_SCHEDULER,
    shares: bool = False,
    quotas: bool = False,
) -> Claim:
    """Start at most a batch of executions. Commit soon: other replicas wait for the lock.

    `pairs` limits the pairs of requirement and tenant that are considered. `too_late` is the reason
    of executions that have waited longer than they may. Without `shares` it is the plain form,
    which decides nothing if slots are known to be scarce. Without `quotas` it only reports if it
    exceeds the quota of starts of a tenant.
    """
    await take_lock(connection, Lock.CLAIM)
    parameters = {
        "at": at,
        "after": after,
        "worker_id": worker_id,
        "batch": batch,
        "requires": list(requires),
        # The end of each requirement is a step, too.
        "pairs": PAIRS_A_CLAIM + 2 * len(requires) if pairs is None else pairs,
        "lease": lease,
        **CLAIM_CONSTANTS,
        "no_scheduler": too_late.value,
    }
    form = statement("claim", shares=shares, quotas=quotas)
    found = await connection.exec_driver_sql(form, parameters)
    columns = list(found.keys())
    claimed, state = claimed_reader(columns), columns.index("state")
    summary, *decided = found.all()
    if summary.slots is None:
        raise DatabaseError("tenantcron.limits has no row, so nothing starts: insert one")
    token, now = summary.token, summary.now
    return Claim(
        started=tuple(claimed(row, token, now) for row in decided if row[state] == State.RUNNING),
        skipped=tuple(map(_skipped, (row for row in decided if row[state] != State.RUNNING))),
        slots=int(summary.slots),
        full_up=tuple(FullUp(*tenant) for tenant in summary.full_up),
        must_replace=summary.must_replace,
        last_tenant=summary.last_tenant or "",
        has_own=summary.has_own,
        leaves_slots=summary.leaves_slots,
        has_undecided=summary.has_undecided,
        is_scarce=summary.is_scarce,
        is_over_quota=summary.is_over_quota,
        at=now,
        lateness=tuple(summary.lateness),
    )


async def skip_late(
    connection: AsyncConnection,
    full_up: Sequence[FullUp],
    *,
    requires: Sequence[str],
    all_tenants: bool,
    at: datetime | None,
) -> tuple[Skipped, ...]:
    """End executions that may not wait, of these tenants or, if no slot is free, of all."""
    parameters = {
        "at": at,
        "requires": list(requires),
        "tenant_ids": [tenant.tenant_id for tenant in full_up],
        "reason_codes": [tenant.reason_code for tenant in full_up],
        "reasons": [tenant.detail for tenant in full_up],
        "are_closed": [tenant.is_closed for tenant in full_up],
        "all": all_tenants,
        "most": MOST_VERDICTS,
        "source_stale": ReasonCode.SOURCE_STALE.value,
        "limit": ReasonCode.LIMIT.value,
    }
    return skipped_rows(await connection.exec_driver_sql(statement("skip_late"), parameters))


def skipped_rows(rows: Iterable[Row[Any]]) -> tuple[Skipped, ...]:
    """Return the executions that a statement ended without starting them."""
    return tuple(replace(_skipped(row), detail=row.reason) for row in rows)


def _skipped(row: Row[Any]) -> Skipped:
    return Skipped(row.id, row.tenant_id, row.schedule_name, State(row.state), row.reason_code)


async def make_room(
    connection: AsyncConnection, requires: Sequence[str], at: datetime | None
) -> None:
    """Ask running executions of `cancel_running` schedules to stop if the next one is pending."""
    replaced = ReasonCode.REPLACED
    parameters = {
        "requires": list(requires),
        "replaced": replaced.value,
        # The text that the handler receives.
        "words": reason_text(replaced, None),
        "at": at,
    }
    await connection.exec_driver_sql(statement("replace"), parameters)
    await notify(connection, CANCEL)


async def notify(connection: AsyncConnection, what: str) -> None:
    """Notify the schedulers on commit."""
    await connection.execute(select(func.pg_notify(WORK, what)))


@dataclass(frozen=True, slots=True)
class Unstarted:
    """An execution that a replica claimed without receiving the result of the claim."""

    id: UUID
    scheduled_for: datetime
    lease_token: UUID


_CLAIMED_BY = """
SELECT id, scheduled_for, lease_token
FROM tenantcron.execution
WHERE
    state = 'RUNNING' AND worker_id = %(worker_id)s
    AND lease_token <> ALL(%(known)s::uuid[])
    AND handed_over_attempt IS DISTINCT FROM attempt
"""


async def unstarted(
    connection: AsyncConnection, worker_id: str, known: Collection[UUID]
) -> list[Unstarted]:
    """Return the executions that a replica has claimed with tokens that it does not know.

    Those that it has handed over to remote workers do not belong to it.
    """
    parameters = {"worker_id": worker_id, "known": list(known)}
    rows = await connection.exec_driver_sql(_CLAIMED_BY, parameters)
    return [Unstarted(*columns) for columns in map(tuple, rows)]


async def release(
    connection: AsyncConnection,
    claimed: Sequence[Claimed | Unstarted],
    requires: Sequence[str] | None = None,
) -> int:
    """Make claimed executions that have not started pending again; return how many.

    `requires` corrects their requirements, where they were wrong.
    """
    parameters = {
        "requires": [None] * len(claimed) if requires is None else list(requires),
        "ids": [execution.id for execution in claimed],
        "scheduled_for": [execution.scheduled_for for execution in claimed],
        "tokens": [execution.lease_token for execution in claimed],
        "cancelled": ReasonCode.CANCELLED.value,
    }
    released = (await connection.exec_driver_sql(statement("release"), parameters)).rowcount
    await notify(connection, "released")
    return released


@lru_cache(maxsize=256)
def actor_of(actor_id: str, actor_type: str, source: str) -> Actor:
    """Return the actor of an execution, cached: thousands per second have the same one."""
    return Actor(actor_id, ActorType(actor_type), source)


def claimed_reader(columns: Iterable[str]) -> Callable[[Sequence[Any], UUID, datetime], Claimed]:
    """Return a function that reads claimed executions from rows with these columns.

    It looks up the positions once: attributes of rows are slow, and thousands are read per second.
    """
    place = list(columns).index
    own = itemgetter(*map(place, _OWN))
    actor = itemgetter(*map(place, ("actor_id", "actor_type", "actor_source")))

    def read(row: Sequence[Any], token: UUID, started_at: datetime) -> Claimed:
        return Claimed._make((*own(row), actor_of(*actor(row)), token, started_at))

    return read
