"""Vitals: what the health of the whole is judged by, as the database has it.

A fixed number of statements, however many tenants there are, and of each kind of trouble only the
first few rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.provider.align import UNREADABLE
from tenantcron.scheduler.situation import alive
from tenantcron.store import (
    execution_history,
    limits,
    manifest_versions,
    outbox,
    schedule_cursors,
    tenants,
    times,
    webhooks,
    workers,
)
from tenantcron.store.execution_history import ExecutionRow, Queue
from tenantcron.store.history import Month, month_of, months_missing
from tenantcron.store.limits import ClusterLimits
from tenantcron.store.outbox import Backlog
from tenantcron.store.schedule_cursors import Some
from tenantcron.store.tenants import TenantRow
from tenantcron.store.webhooks import Standing
from tenantcron.store.workers import WorkerRow

# The reason of a pause that nobody has set, as `finish.sql` writes it.
AUTO_PAUSED = "auto:consecutive_failures"
OVERDUE = timedelta(minutes=5)
# Of each kind so many are named; the count tells of the others.
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Moved:
    """A tenant whose schedules have changed and are not followed yet."""

    tenant_id: TenantId
    since: datetime


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the health of the whole is judged by."""

    now: datetime
    lease: timedelta
    has_schedules: bool
    workers: tuple[WorkerRow, ...]
    overdue: Some
    set_aside: Some
    auto_paused: Some
    left_out: tuple[TenantRow, ...]
    moved: tuple[Moved, ...]
    dead_leases: tuple[ExecutionRow, ...]
    months_missing: tuple[Month, ...]
    queue: Queue
    limits: ClusterLimits
    running: int
    webhooks: tuple[Standing, ...] = ()
    # What waits for webhooks that are on.
    backlogs: tuple[Backlog, ...] = ()
    # Why no token can be signed, if that is so.
    signing_fault: str | None = None

    @property
    def replicas(self) -> tuple[WorkerRow, ...]:
        """The replicas that have been heard of lately."""
        return alive(self.workers, self.now, self.lease)

    @property
    def lag(self) -> timedelta:
        """How long the first of those that wait has been waiting."""
        oldest = self.queue.oldest
        return timedelta() if oldest is None else max(self.now - oldest, timedelta())


async def read_vitals(connection: AsyncConnection, lease: timedelta, at: datetime | None) -> Vitals:
    """Read what there is to judge."""
    now = await times.moment(connection, at)
    month = month_of(now)
    everybody = await tenants.list_all(connection)
    moved = [row for row in everybody if row.schedule_revision != row.synced_revision]
    return Vitals(
        now=now,
        lease=lease,
        has_schedules=bool(moved) or await schedule_cursors.any_enabled(connection),
        workers=tuple(await workers.list_all(connection)),
        overdue=await schedule_cursors.overdue(connection, OVERDUE, now, SHOWN),
        set_aside=await schedule_cursors.set_aside(connection, UNREADABLE, SHOWN),
        auto_paused=await schedule_cursors.paused_for(connection, AUTO_PAUSED, SHOWN),
        left_out=tuple(row for row in everybody if row.sync_fault is not None),
        moved=await _since_when(connection, moved),
        dead_leases=tuple(await execution_history.with_dead_leases(connection, lease, now, SHOWN)),
        months_missing=tuple(await months_missing(connection, [month, month.following])),
        queue=await execution_history.queue(connection, now),
        limits=await limits.read(connection),
        running=sum((await execution_history.running_by_tenant(connection)).values()),
        webhooks=tuple(await webhooks.standings(connection)),
        backlogs=tuple((await outbox.backlogs(connection)).values()),
    )


async def _since_when(connection: AsyncConnection, moved: Sequence[TenantRow]) -> tuple[Moved, ...]:
    """Tell since when tenants wait to be followed: their last apply, or their last step in life."""
    applied = await manifest_versions.latest(connection, [row.id for row in moved])
    return tuple(
        Moved(row.id, max(row.updated_at, applied[row.id].applied_at))
        if row.id in applied
        else Moved(row.id, row.updated_at)
        for row in moved
    )
