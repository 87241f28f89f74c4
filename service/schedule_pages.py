"""Pages of the schedules of all tenants, by tenant and name.

A page is read from the cursors, in the order of their index. Cursors lag behind the schedules of
tenants that no scheduler has synced yet, and show nothing of a schema that cannot be read. There
are few such tenants, so their schedules are read from their schemas instead and merged into the
page. A page reads at most `MOST_BEHIND` of these, and ends before the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tenantcron.core.names import TenantId
from tenantcron.reconciler.outcome import Registered, all_schedules, provided_schedules
from tenantcron.reconciler.state import LiveState, read_states
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import cursor_pages, provided_cursors, schedule_cursors, tenants_behind
from tenantcron.store.rows.cursor_pages import CursorFilter, CursorPosition

MOST_BEHIND: Final = 50


@dataclass(frozen=True, slots=True)
class TenantSchedule:
    """A schedule and its tenant."""

    tenant: TenantId
    schedule: Registered

    @property
    def position(self) -> CursorPosition:
        """Its position in the list."""
        return CursorPosition(self.tenant, self.schedule.definition.schedule_name)


@dataclass(frozen=True, slots=True)
class SchedulesRead:
    """Schedules in order, and why the schemas of some tenants cannot be read."""

    schedules: Sequence[TenantSchedule]
    failed: dict[TenantId, str]
    # The list continues after this position, although the page is not full.
    rest: CursorPosition | None = None


async def read_schedules_page(
    database: Database, filters: CursorFilter, *, after: CursorPosition | None, limit: int
) -> SchedulesRead:
    """Read up to `limit` schedules."""
    start = after.tenant_id if after else ""
    async with database.transaction() as connection:
        now = await database_time(connection)
        behind = await tenants_behind.from_id(connection, filters.only, start, MOST_BEHIND + 1)
        last, unread = (behind[-1], True) if len(behind) > MOST_BEHIND else (None, False)
        behind = behind[:MOST_BEHIND]
        rows = await cursor_pages.page(
            connection, replace(filters, without=tuple(behind)), after=after, limit=limit
        )
        faults = await schedule_cursors.faults(connection, behind)
        provided = await provided_cursors.of_tenants(connection, behind)
    states = await read_states(database, behind) if behind else {}
    synced = [TenantSchedule(row.tenant_id, provided_schedules([row], now)[0]) for row in rows]
    unsynced = [
        TenantSchedule(tenant, schedule)
        for tenant, state in states.items()
        for schedule in all_schedules(
            replace(state, faults=faults.get(tenant, {})), provided.get(tenant, ()), now
        )
        if _matches(schedule, filters)
    ]
    found = [
        entry
        for entry in (*synced, *unsynced)
        if (after is None or entry.position > after) and (last is None or entry.tenant < last)
    ]
    found.sort(key=lambda entry: entry.position)
    return _cut(found, limit, states, last if unread else None)


def _matches(schedule: Registered, filters: CursorFilter) -> bool:
    definition = schedule.definition
    return (filters.saga in (None, definition.saga_name)) and (
        filters.enabled in (None, definition.enabled)
    )


def _cut(
    found: list[TenantSchedule],
    limit: int,
    states: dict[TenantId, LiveState],
    unread: TenantId | None,
) -> SchedulesRead:
    """Return the first schedules, and the failures up to the last of their tenants."""
    shown = found[:limit]
    is_full = len(found) >= limit
    end = shown[-1].tenant if is_full else None
    failed = {
        tenant: state.broken
        for tenant, state in states.items()
        if state.broken is not None and (end is None or tenant <= end)
    }
    rest = CursorPosition(unread, "") if unread is not None and not is_full else None
    return SchedulesRead(shown, failed, rest)
