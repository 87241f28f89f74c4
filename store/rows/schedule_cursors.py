"""Rows of `schedule_cursor`. The provider's refresh and the scheduler write them.

A refresh creates and deletes cursors, and sets the columns of the provider and `next_run_at`.
Firing moves `next_run_at` and `last_run_at`. An operator sets the pause. A refresh locks the
cursors before it reads them, in the order of their ids.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    JSON,
    ColumnElement,
    DateTime,
    Integer,
    Interval,
    Text,
    Uuid,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.schedules.pause import Pause, recorded_pause
from tenantcron.store.connection.times import NOW
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.store.schema.tables import schedule_cursor, tenant


@dataclass(frozen=True, slots=True)
class CursorRow:
    """The scheduler's position in one schedule; the fields are the columns, in their order."""

    schedule_id: UUID
    tenant_id: TenantId
    schedule_name: str
    saga_name: str
    provider: str
    cron_expr: str
    timezone: str
    tz_version: str
    enabled: bool
    definition_id: UUID
    effective_from: datetime
    next_run_at: datetime | None
    last_run_at: datetime | None = None
    consecutive_failures: int = 0
    paused_at: datetime | None = None
    paused_by: str | None = None
    paused_reason: str | None = None
    paused_until: datetime | None = None
    fault: str | None = None
    counts_after: datetime | None = None

    @property
    def pause(self) -> Pause | None:
        """The pause as recorded, which may have ended."""
        return recorded_pause(self.paused_at, self.paused_by, self.paused_reason, self.paused_until)


_COLUMNS = tuple(schedule_cursor.c.keys())
_values = attrgetter(*_COLUMNS)
# The columns that a refresh sets, without the name: two schedules may swap their names, and one
# statement cannot do that without violating the unique constraint.
_SYNCED = (
    "saga_name",
    "cron_expr",
    "timezone",
    "tz_version",
    "enabled",
    "definition_id",
    "effective_from",
    "next_run_at",
    "fault",
    "counts_after",
)

_cursor = schedule_cursor.c
_OF_TENANTS = _cursor.tenant_id == func.any(bindparam("tenant_ids", type_=ARRAY(Text)))
_THIS = _cursor.schedule_id == bindparam("of", type_=Uuid)
_THESE = _cursor.schedule_id == func.any(bindparam("ids", type_=ARRAY(Uuid)))
# As `Pause.is_in_force` decides.
IS_PAUSED = and_(
    _cursor.paused_at.is_not(None),
    or_(_cursor.paused_until.is_(None), _cursor.paused_until > NOW),
)

_PAUSES = select(
    _cursor.schedule_id,
    _cursor.paused_at,
    _cursor.paused_by,
    _cursor.paused_reason,
    _cursor.paused_until,
).where(_OF_TENANTS, _cursor.paused_at.is_not(None))


async def pauses(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[UUID, Pause]:
    """Return the pauses as recorded, by schedule id; some may have ended."""
    rows = await connection.execute(_PAUSES, {"tenant_ids": list(tenant_ids)})
    return {
        row.schedule_id: Pause(row.paused_at, row.paused_by, row.paused_reason, row.paused_until)
        for row in rows
    }


_FAULTS = select(_cursor.tenant_id, _cursor.schedule_name, _cursor.fault).where(
    _OF_TENANTS, _cursor.fault.is_not(None)
)


async def faults(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, dict[str, str]]:
    """Return why schedules do not fire, by tenant and schedule name."""
    found: dict[TenantId, dict[str, str]] = {}
    for row in await connection.execute(_FAULTS, {"tenant_ids": list(tenant_ids)}):
        found.setdefault(TenantId(row.tenant_id), {})[row.schedule_name] = row.fault
    return found


async def find(
    connection: AsyncConnection, tenant_id: TenantId, schedule_name: str
) -> CursorRow | None:
    """Return the cursor of a tenant's schedule."""
    statement = select(schedule_cursor).where(
        _cursor.tenant_id == tenant_id, _cursor.schedule_name == schedule_name
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else CursorRow(*row)


async def with_ids(connection: AsyncConnection, schedule_ids: Collection[UUID]) -> list[CursorRow]:
    """Return the cursors that exist."""
    rows = await connection.execute(
        select(schedule_cursor).where(_THESE), {"ids": list(schedule_ids)}
    )
    return [CursorRow(*row) for row in rows]


async def lock_one(connection: AsyncConnection, schedule_id: UUID) -> CursorRow | None:
    """Lock a cursor until the end of the transaction, and return it."""
    statement = select(schedule_cursor).where(_THIS).with_for_update(key_share=True)
    row = (await connection.execute(statement, {"of": schedule_id})).one_or_none()
    return None if row is None else CursorRow(*row)


_ALL_OF = select(schedule_cursor).where(_OF_TENANTS)


async def of_tenants(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> list[CursorRow]:
    """Return the cursors of tenants, by tenant and name."""
    statement = _ALL_OF.order_by(_cursor.tenant_id, _cursor.schedule_name)
    rows = await connection.execute(statement, {"tenant_ids": list(tenant_ids)})
    return [CursorRow(*row) for row in rows]


_LOCK = (
    _ALL_OF.where(_cursor.provider == bindparam("provider"))
    # All code that locks several cursors uses this order, to prevent deadlocks.
    .order_by(_cursor.schedule_id)
    .with_for_update(key_share=True)
)


async def lock(
    connection: AsyncConnection, provider: str, tenant_ids: Collection[TenantId]
) -> list[CursorRow]:
    """Lock a provider's cursors of tenants until the end of the transaction, and return them."""
    rows = await connection.execute(_LOCK, {"provider": provider, "tenant_ids": list(tenant_ids)})
    return [CursorRow(*row) for row in rows]


async def tenants_of(connection: AsyncConnection, provider: str) -> list[TenantId]:
    """Return the tenants that have cursors of this provider; it reads all cursors."""
    statement = select(_cursor.tenant_id).where(_cursor.provider == provider).distinct()
    return [TenantId(row.tenant_id) for row in await connection.execute(statement)]


# All rows are one JSON parameter: the database parses and plans a single statement.
_GIVEN = (
    func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON))
    .table_valued(*(column(name, schedule_cursor.c[name].type) for name in _COLUMNS))
    .render_derived(name="given", with_types=True)
)
_ADD = (
    insert(schedule_cursor)
    .from_select(list(_COLUMNS), select(*_GIVEN.c))
    .on_conflict_do_nothing()
    .returning(_cursor.tenant_id, _cursor.schedule_id)
)


async def add(connection: AsyncConnection, rows: Sequence[CursorRow]) -> set[tuple[TenantId, UUID]]:
    """Insert cursors; return the inserted ones, since another may have the name or the id."""
    if not rows:
        return set()
    added = await connection.execute(_ADD, {"rows": _as_json(rows)})
    return {(TenantId(row.tenant_id), row.schedule_id) for row in added}


_CHANGE = (
    update(schedule_cursor)
    .where(_cursor.schedule_id == _GIVEN.c.schedule_id)
    .values({name: _GIVEN.c[name] for name in _SYNCED})
)


async def change(connection: AsyncConnection, rows: Sequence[CursorRow]) -> None:
    """Sync cursors with their schedules; fired occurrences and pauses do not change."""
    if rows:
        await connection.execute(_CHANGE, {"rows": _as_json(rows)})


_REMOVE = delete(schedule_cursor).where(_THESE)


async def remove(connection: AsyncConnection, schedule_ids: Collection[UUID]) -> None:
    """Delete cursors."""
    if schedule_ids:
        await connection.execute(_REMOVE, {"ids": list(schedule_ids)})


_OLD_ZONES = (
    select(schedule_cursor)
    .where(
        # IANA versions compare as text, independent of the collation.
        _cursor.tz_version.collate("C") < bindparam("tz_version"),
        _cursor.next_run_at > bindparam("now", type_=DateTime(timezone=True)),
        _cursor.schedule_id > bindparam("after", type_=Uuid),
    )
    .order_by(_cursor.schedule_id)
    .limit(bindparam("batch"))
    .with_for_update(key_share=True)
)


async def lock_with_older_zones(
    connection: AsyncConnection, tz_version: str, now: datetime, *, after: UUID, batch: int
) -> list[CursorRow]:
    """Lock cursors whose future occurrence was computed with older time zones, by id."""
    parameters = {"tz_version": tz_version, "now": now, "after": after, "batch": batch}
    return [CursorRow(*row) for row in await connection.execute(_OLD_ZONES, parameters)]


_PAUSE = (
    update(schedule_cursor)
    .where(_THESE)
    .values(
        # A pause that is in force continues. One that has ended is replaced by a new one.
        paused_at=case((IS_PAUSED, _cursor.paused_at), else_=NOW),
        paused_by=bindparam("by"),
        paused_reason=bindparam("reason"),
        paused_until=bindparam("until", type_=DateTime(timezone=True)),
    )
    .returning(schedule_cursor)
)


async def pause(  # noqa: PLR0913 -- the columns of a pause
    connection: AsyncConnection,
    schedule_ids: Collection[UUID],
    *,
    by: str,
    reason: str,
    until: datetime | None,
    at: datetime | None,
) -> list[CursorRow]:
    """Pause schedules, or change the reason and the end; the caller has locked the cursors."""
    ids = list(schedule_ids)
    parameters = {"ids": ids, "by": by, "reason": reason, "until": until, "at": at}
    return [CursorRow(*row) for row in await connection.execute(_PAUSE, parameters)]


_RESUME = (
    update(schedule_cursor)
    .where(_THESE, _cursor.paused_at.is_not(None))
    .values(
        paused_at=None,
        paused_by=None,
        paused_reason=None,
        paused_until=None,
        # The operator has fixed the cause: one more failure must not pause it again immediately.
        consecutive_failures=0,
    )
    .returning(schedule_cursor)
)


async def resume(connection: AsyncConnection, schedule_ids: Collection[UUID]) -> list[CursorRow]:
    """Remove pauses; the caller has locked the cursors. Past occurrences are not fired."""
    rows = await connection.execute(_RESUME, {"ids": list(schedule_ids)})
    return [CursorRow(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class SomeCursors:
    """The first few matching cursors, and how many there are."""

    rows: list[CursorRow]
    number: int


async def overdue(
    connection: AsyncConnection, longer_than: timedelta, at: datetime | None, limit: int
) -> SomeCursors:
    """Return cursors that are overdue for longer than that, the longest first."""
    is_due = and_(_cursor.enabled, _cursor.fault.is_(None), _cursor.next_run_at.is_not(None))
    late = and_(is_due, _cursor.next_run_at < NOW - bindparam("longer_than", type_=Interval))
    parameters = {"at": at, "longer_than": longer_than}
    return await _some(connection, late, _cursor.next_run_at, limit, parameters)


async def quarantined(connection: AsyncConnection, except_for: str, limit: int) -> SomeCursors:
    """Return cursors that have a fault other than this one."""
    is_faulty = and_(_cursor.fault.is_not(None), _cursor.fault != except_for)
    return await _some(connection, is_faulty, _cursor.tenant_id, limit, {})


async def paused_for(connection: AsyncConnection, reason: str, limit: int) -> SomeCursors:
    """Return cursors that are paused with exactly this reason, the longest first."""
    is_paused = and_(_cursor.paused_at.is_not(None), _cursor.paused_reason == reason)
    return await _some(connection, is_paused, _cursor.paused_at, limit, {})


async def any_enabled(connection: AsyncConnection) -> bool:
    """Return whether any schedule is enabled."""
    return bool(await connection.scalar(select(exists().where(_cursor.enabled))))


async def _some(
    connection: AsyncConnection,
    condition: ColumnElement[bool],
    order: ColumnElement[object],
    limit: int,
    parameters: Mapping[str, object],
) -> SomeCursors:
    # A separate count: a window function would sort all matching rows.
    counted = select(func.count()).select_from(schedule_cursor).where(condition)
    statement = (
        select(schedule_cursor, counted.correlate(None).scalar_subquery())
        .where(condition)
        .order_by(order, _cursor.tenant_id, _cursor.schedule_name)
        .limit(limit)
    )
    rows = (await connection.execute(statement, parameters)).all()
    return SomeCursors([CursorRow(*row[:-1]) for row in rows], rows[0][-1] if rows else 0)


@dataclass(frozen=True, slots=True)
class SharedTimetable:
    """A timetable, and how many schedules use it."""

    cron_expr: str
    timezone: str
    schedules: int


async def due_before(
    connection: AsyncConnection, until: datetime, *, at: datetime, most: int
) -> list[SharedTimetable]:
    """Return the timetables that are due before a time, of the first `most` cursors.

    Paused schedules and those of inactive tenants do not count. It uses the index of due cursors,
    so that it does not read later ones.
    """
    inactive = select(tenant.c.id).where(tenant.c.status != TenantStatus.ACTIVE)
    can_fire = and_(_cursor.enabled, _cursor.fault.is_(None), _cursor.next_run_at.is_not(None))
    first = (
        select(_cursor.cron_expr, _cursor.timezone)
        .where(can_fire, _cursor.next_run_at < until, ~IS_PAUSED)
        # Not a join: Postgres reads these few ids once, and the index still gives the order.
        .where(_cursor.tenant_id.not_in(inactive))
        .order_by(_cursor.next_run_at)
        .limit(most)
        .subquery()
    )
    statement = (
        select(first.c.cron_expr, first.c.timezone, func.count())
        .group_by(first.c.cron_expr, first.c.timezone)
        .order_by(func.count().desc(), first.c.cron_expr, first.c.timezone)
    )
    return [SharedTimetable(*row) for row in await connection.execute(statement, {"at": at})]


async def due_by_hour(
    connection: AsyncConnection, now: datetime, until: datetime
) -> dict[int, int]:
    """Count the schedules that are next due in each hour of the day (UTC), by index only."""
    can_fire = and_(_cursor.enabled, _cursor.fault.is_(None), _cursor.next_run_at.is_not(None))
    hour = cast(func.extract("hour", func.timezone("UTC", _cursor.next_run_at)), Integer)
    statement = (
        select(hour.label("hour"), func.count())
        .where(can_fire, _cursor.next_run_at >= now, _cursor.next_run_at < until)
        .group_by(hour)
    )
    return {int(found): number for found, number in await connection.execute(statement)}


def _as_json(rows: Iterable[CursorRow]) -> str:
    # Ids and times are sent as text, which the database casts to the type of the column.
    return json.dumps([dict(zip(_COLUMNS, _values(row), strict=True)) for row in rows], default=str)
