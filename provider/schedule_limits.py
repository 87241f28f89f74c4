"""Bounds: the minimum interval and the schedule limit of the platform, for any provider.

All schedules are checked at each refresh, by the policy of the scheduler. A manifest was checked
before it was applied, but by the policy that the apply found; and a row can be written without an
apply. A schedule of a manifest that fires too often, or exceeds the limit of its tenant, is
quarantined. One of another provider is skipped and reported. The others are served. The limit
counts the schedules of all providers; those of the manifest come first, then by name.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache

from sqlalchemy.exc import InterfaceError, OperationalError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.durations import format_duration
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.cron.analysis import gap_below
from tenantcron.cron.errors import CronError
from tenantcron.provider.protocol import ProvidedSchedule, ProvidedTenant, ScheduleProvider
from tenantcron.schedules.timetable import read_timetable
from tenantcron.store.connection.deadlines import BudgetSpentError
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import provided_cursors, tenants
from tenantcron.store.rows.tenants import Scope, Synced

# The database is unavailable, busy or locked: not a failure of the provider. A wrong statement is.
_DATABASE_ERRORS = (
    *(DatabaseError, OperationalError, InterfaceError, PendingRollbackError),
    *(NoConnectionError, BudgetSpentError),
)


class ProviderError(TenantcronError):
    """A provider of the platform failed; its schedules continue as they are."""

    def __init__(self, provider: str, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {first_line(error)}")
        self.provider = provider


@contextmanager
def _blaming(provider: str) -> Iterator[None]:
    """Treat any exception of a provider as its failure, except database errors."""
    try:
        yield
    except _DATABASE_ERRORS:
        raise
    except Exception as error:
        raise ProviderError(provider, error) from error


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the platform allows."""

    floor: timedelta
    # For tenants without their own limit.
    cap: int
    # Of single tenants, in the policy.
    caps: Mapping[TenantId, int] = field(default_factory=dict)

    def cap_of(self, tenant: TenantId, stored: int | None) -> int:
        """Return the limit of a tenant: the stored one, else that of the policy."""
        return self.caps.get(tenant, self.cap) if stored is None else stored


@dataclass(frozen=True, slots=True)
class BoundedProvider:
    """A provider whose schedules obey the bounds, and whose failures are isolated."""

    provider: ScheduleProvider
    bounds: Bounds

    @property
    def name(self) -> str:
        """The name of the provider."""
        return self.provider.name

    async def has_moved(self, database: Database) -> bool:
        """Whether a refresh may find anything."""
        with _blaming(self.name):
            return await self.provider.has_moved(database)

    async def tenants(
        self, connection: AsyncConnection, scope: Scope, after: TenantId | None
    ) -> Sequence[ProvidedTenant]:
        """Return the next tenants, each with its allowed schedules."""
        with _blaming(self.name):
            found = await self.provider.tenants(connection, scope, after)
        return await self._bounded(connection, found)

    async def settle(self, connection: AsyncConnection, synced: Sequence[Synced]) -> None:
        """Report to the provider which revisions are synced."""
        with _blaming(self.name):
            await self.provider.settle(connection, synced)

    async def _bounded(
        self, connection: AsyncConnection, found: Sequence[ProvidedTenant]
    ) -> list[ProvidedTenant]:
        with_any = [tenant.tenant_id for tenant in found if tenant.schedules]
        if not with_any:
            return list(found)
        others = await provided_cursors.numbers_of_others(connection, self.name, with_any)
        rows = await tenants.find_many(connection, with_any)
        caps = {row.id: row.max_schedules for row in rows.values()}
        return [
            within(tenant, self.bounds, caps.get(tenant.tenant_id), others.get(tenant.tenant_id, 0))
            for tenant in found
        ]


async def revisit(database: Database, bounds: Bounds) -> int:
    """Let the next refresh read tenants again that these bounds may concern; return how many.

    A refresh reads what has changed. If the policy has changed instead, this finds the tenants that
    exceed it now, and those with quarantined schedules, which it may allow now.
    """
    async with database.transaction() as connection:
        expressions = await provided_cursors.expressions_of_manifests(connection)
        frequent = [text for text in expressions if _gap_below(text, bounds.floor) is not None]
        return await provided_cursors.revisit(connection, frequent, bounds.cap, bounds.caps)


def within(
    tenant: ProvidedTenant, bounds: Bounds, own_cap: int | None, others: int
) -> ProvidedTenant:
    """Return a tenant with its allowed schedules, and why others were refused."""
    cap = bounds.cap_of(tenant.tenant_id, own_cap)
    by_name = sorted(tenant.schedules, key=lambda schedule: schedule.schedule_name)
    gaps = {
        schedule.schedule_name: _gap_below(schedule.cron_expr, bounds.floor) for schedule in by_name
    }
    slow = [schedule for schedule in by_name if gaps[schedule.schedule_name] is None]
    room = max(cap - others, 0)
    refused = (
        *tenant.refused,
        *(
            _too_frequent(schedule, gaps[schedule.schedule_name], bounds.floor)
            for schedule in by_name
        ),
        *(_beyond(schedule, cap) for schedule in slow[room:]),
    )
    kept = tuple(slow[:room])
    return replace(tenant, schedules=kept, refused=tuple(filter(None, refused)))


def quarantined(
    schedules: Sequence[ProvidedSchedule], floor: timedelta, cap: int
) -> tuple[ProvidedSchedule, ...]:
    """Return the schedules of a manifest; those that exceed the bounds have a fault."""
    names = sorted(schedule.schedule_name for schedule in schedules)
    beyond = frozenset(names[cap:])
    return tuple(_quarantined(schedule, floor, beyond, cap) for schedule in schedules)


def _quarantined(
    schedule: ProvidedSchedule, floor: timedelta, beyond: Container[str], cap: int
) -> ProvidedSchedule:
    gap = _gap_below(schedule.cron_expr, floor)
    if gap is not None:
        return schedule._replace(fault=_frequency(schedule, gap, floor))
    if schedule.schedule_name in beyond:
        return schedule._replace(fault=f"the tenant may have {cap} schedules, and has them")
    return schedule


def _frequency(schedule: ProvidedSchedule, gap: timedelta, floor: timedelta) -> str:
    return (
        f"the shortest gap of `{schedule.cron_expr}` is {format_duration(gap)}; "
        f"the platform requires at least {format_duration(floor)}"
    )


def _beyond(schedule: ProvidedSchedule, cap: int) -> str:
    return f"schedule `{schedule.schedule_name}`: the tenant may have {cap} schedules, and has them"


def _too_frequent(schedule: ProvidedSchedule, gap: timedelta | None, floor: timedelta) -> str:
    if gap is None:
        return ""
    return f"schedule `{schedule.schedule_name}`: {_frequency(schedule, gap, floor)}"


@lru_cache(maxsize=4096)
def _gap_below(cron_expr: str, floor: timedelta) -> timedelta | None:
    """Return the gap if it is too short; an invalid timetable becomes a fault in `align`."""
    try:
        return gap_below(read_timetable(cron_expr), floor)
    except CronError:
        return None
