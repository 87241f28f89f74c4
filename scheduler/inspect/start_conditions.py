"""What decides whether an execution of a tenant may start now: limits, replicas, tenant source."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.quotas import QUOTAS
from tenantcron.core.requirements import covers
from tenantcron.store.connection import times
from tenantcron.store.rows import execution_history, limits, tenant_sources, tenants, workers
from tenantcron.store.rows.limits import ClusterLimits
from tenantcron.store.rows.tenant_sources import SourceRow
from tenantcron.store.rows.tenants import TenantRow
from tenantcron.store.rows.workers import WorkerRow

# A replica sends three heartbeats per lease. After two leases without one it counts as gone.
LEASES_TO_BE_GONE = 2
# As in tenantcron.has_former_replica(): a lost replica of the previous release may come back.
_FORMER_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartConditions:
    """A tenant, the limits and their use, and the replicas."""

    now: datetime
    tenant: TenantRow
    limits: ClusterLimits
    running: int
    running_of_tenant: int
    # Those that are alive.
    replicas: tuple[WorkerRow, ...]
    # Those of the previous release that ran in the last hour. While there are any, no task fires.
    former_replicas: tuple[WorkerRow, ...] = ()
    # None: there is no tenant source.
    source: SourceRow | None = None
    # How many executions the tenant has started in this minute, and may start.
    starts: int = 0
    start_quota: int = QUOTAS["starts_per_minute"].default

    @property
    def limit_of_tenant(self) -> int:
        """The tenant limit: how many of its executions may run at once."""
        own = self.tenant.max_concurrent
        return self.limits.per_tenant if own is None else own


def alive(replicas: Iterable[WorkerRow], now: datetime, lease: timedelta) -> tuple[WorkerRow, ...]:
    """Return the replicas that have sent a heartbeat recently."""
    limit = LEASES_TO_BE_GONE * lease
    return tuple(replica for replica in replicas if now - replica.seen_at <= limit)


def without_runner(required: Iterable[str], replicas: Collection[WorkerRow]) -> list[str]:
    """Return the requirements that none of these replicas can meet."""
    declared = [replica.capabilities for replica in replicas if not replica.draining]
    if None in declared:
        return []
    named = {capability for capabilities in declared for capability in capabilities or ()}
    patterns = [capability for capability in named if "*" in capability or "?" in capability]
    return [need for need in required if need not in named and not covers(patterns, need)]


async def read_start_conditions(
    connection: AsyncConnection, tenant: TenantRow, lease: timedelta, at: datetime | None
) -> StartConditions:
    """Read the conditions; they need only read privileges."""
    now = await times.moment(connection, at)
    running = await execution_history.running_by_tenant(connection)
    known = await workers.list_all(connection)
    return StartConditions(
        now=now,
        tenant=tenant,
        limits=await limits.read(connection),
        running=await execution_history.running_overall(connection),
        running_of_tenant=running.get(tenant.id, 0),
        replicas=alive(known, now, lease),
        former_replicas=tuple(
            replica
            for replica in known
            if replica.capabilities is None and now - replica.seen_at < _FORMER_FOR
        ),
        source=await tenant_sources.read(connection),
        starts=await tenants.starts_in_minute(connection, tenant.id, now),
        start_quota=await _start_quota(connection, tenant),
    )


async def _start_quota(connection: AsyncConnection, tenant: TenantRow) -> int:
    declared = await limits.read_quotas(connection)
    return declared.of_tenant(tenant.id, tenant.quotas)["starts_per_minute"].value
