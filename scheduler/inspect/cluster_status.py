"""ClusterStatus: the data from which the health of the cluster is derived.

Reading them takes a fixed number of statements for any number of tenants, and only the first few
rows of each kind of problem.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.provider.align import UNREADABLE
from tenantcron.scheduler.inspect.start_conditions import alive, without_runner
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.schedules.pause import AUTO_PAUSED
from tenantcron.store.connection import times
from tenantcron.store.rows import (
    event_buses,
    execution_history,
    failovers,
    limits,
    outbox,
    schedule_cursors,
    skipped_schedules,
    tenant_sources,
    tenants_behind,
    webhooks,
    workers,
)
from tenantcron.store.rows.event_buses import BusHealth
from tenantcron.store.rows.execution_history import ExecutionRow, Queue
from tenantcron.store.rows.failovers import Losses
from tenantcron.store.rows.history_months import Month, month_of, months_missing
from tenantcron.store.rows.limits import ClusterLimits
from tenantcron.store.rows.outbox import WebhookBacklog
from tenantcron.store.rows.schedule_cursors import SomeCursors
from tenantcron.store.rows.skipped_schedules import AlwaysSkipped
from tenantcron.store.rows.tenant_sources import SourceProblem, SourceRow
from tenantcron.store.rows.tenants_behind import SomeBehind
from tenantcron.store.rows.webhooks import WebhookHealth
from tenantcron.store.rows.workers import WorkerRow
from tenantcron.store.steps import requirements
from tenantcron.store.steps.requirements import Pending

OVERDUE = timedelta(minutes=5)
NOT_FOLLOWED = timedelta(minutes=2)
# Losses are reported for this long.
LATELY = timedelta(days=1)
# The number of subjects that a finding names; its count includes the others.
SHOWN = 10
# A schedule counts as always skipped after that many skips in a row.
SKIPS = 5
# Reasons that an operator may not expect, unlike a pause.
_CROWDED_OUT = (
    ReasonCode.LIMIT,
    ReasonCode.TENANT_LIMIT,
    ReasonCode.STILL_RUNNING,
    ReasonCode.NO_RUNNER,
    ReasonCode.NO_SCHEDULER,
    ReasonCode.OWNER_REFUSED,
    ReasonCode.SOURCE_STALE,
)


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The tenant source, with its first problems and the first missing tenants."""

    row: SourceRow
    problems: tuple[SourceProblem, ...]
    missing: tuple[TenantId, ...]
    missing_number: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The data from which the health of the cluster is derived."""

    now: datetime
    lease: timedelta
    has_schedules: bool
    workers: tuple[WorkerRow, ...]
    overdue: SomeCursors
    set_aside: SomeCursors
    auto_paused: SomeCursors
    left_out: SomeBehind
    not_followed: SomeBehind
    dead_leases: tuple[ExecutionRow, ...]
    # Executions that are retried because their remote worker sent no heartbeat.
    missed_heartbeats: tuple[ExecutionRow, ...]
    months_missing: tuple[Month, ...]
    queue: Queue
    limits: ClusterLimits
    running: int
    webhooks: tuple[WebhookHealth, ...] = ()
    # The undelivered events of enabled webhooks.
    backlogs: tuple[WebhookBacklog, ...] = ()
    buses: tuple[BusHealth, ...] = ()
    # Attempts that were lost in a failover during the last day.
    failover_losses: Losses = field(default_factory=Losses)
    # None: there is no tenant source.
    tenant_source: SourceStatus | None = None
    # Why tokens cannot be signed; None if they can.
    signing_fault: str | None = None
    # Pending executions by saga and requirement, the largest number first.
    pending: tuple[Pending, ...] = ()
    # Schedules whose last executions were all skipped by limits or overlaps.
    always_skipped: tuple[AlwaysSkipped, ...] = ()

    @property
    def replicas(self) -> tuple[WorkerRow, ...]:
        """The live replicas."""
        return alive(self.workers, self.now, self.lease)

    @property
    def without_runner(self) -> tuple[Pending, ...]:
        """The pending executions that no live replica can run; none if no replica is alive."""
        if not self.replicas:
            return ()
        missing = set(without_runner([entry.requires for entry in self.pending], self.replicas))
        return tuple(entry for entry in self.pending if entry.requires in missing)

    @property
    def lag(self) -> timedelta:
        """How long the oldest pending execution has been waiting."""
        oldest = self.queue.oldest
        return timedelta() if oldest is None else max(self.now - oldest, timedelta())


async def read_cluster_status(
    connection: AsyncConnection, lease: timedelta, at: datetime | None
) -> ClusterStatus:
    """Read the status."""
    now = await times.moment(connection, at)
    month = month_of(now)
    return ClusterStatus(
        now=now,
        lease=lease,
        has_schedules=await _has_schedules(connection),
        workers=tuple(await workers.list_all(connection)),
        overdue=await schedule_cursors.overdue(connection, OVERDUE, now, SHOWN),
        set_aside=await schedule_cursors.quarantined(connection, UNREADABLE, SHOWN),
        auto_paused=await schedule_cursors.paused_for(connection, AUTO_PAUSED, SHOWN),
        left_out=await tenants_behind.faulty(connection, SHOWN),
        not_followed=await tenants_behind.not_synced(connection, NOT_FOLLOWED, now, SHOWN),
        dead_leases=tuple(await execution_history.with_dead_leases(connection, lease, now, SHOWN)),
        missed_heartbeats=tuple(await execution_history.with_missed_heartbeats(connection, SHOWN)),
        months_missing=tuple(await months_missing(connection, [month, month.following])),
        queue=await execution_history.queue(connection, now),
        limits=await limits.read(connection),
        running=sum((await execution_history.running_by_tenant(connection)).values()),
        webhooks=tuple(await webhooks.list_health(connection)),
        backlogs=tuple((await outbox.backlogs(connection)).values()),
        buses=tuple(await event_buses.list_health(connection)),
        failover_losses=await failovers.losses(connection, now - LATELY, limit=SHOWN),
        tenant_source=await _source(connection),
        pending=tuple(await requirements.pending(connection)),
        always_skipped=tuple(
            await skipped_schedules.always_skipped(
                connection, _CROWDED_OUT, since=now - LATELY, last=SKIPS
            )
        ),
    )


async def _source(connection: AsyncConnection) -> SourceStatus | None:
    row = await tenant_sources.read(connection)
    if row is None:
        return None
    number, missing = await tenant_sources.missing(connection, SHOWN)
    problems = await tenant_sources.first_problems(connection, SHOWN)
    return SourceStatus(row, tuple(problems), missing, number)


async def _has_schedules(connection: AsyncConnection) -> bool:
    """Whether there are schedules to fire, or changes that may add some."""
    return await schedule_cursors.any_enabled(connection) or await tenants_behind.any_moved(
        connection
    )
