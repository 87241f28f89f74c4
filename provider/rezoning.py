"""Recompute future occurrences for a new version of the time zones, and nothing else.

Every cursor stores the zone version with which its next occurrence was computed. After an upgrade
future ones are computed again, counted from now, so no past occurrence is fired. Occurrences that
are already due stay: they were planned for that moment. A replica that still has the older zones
may continue; it never lowers the version of a cursor here, and the next call finds what it
computed.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.cron.zones import tz_version
from tenantcron.provider.align import rezone
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import schedule_cursors
from tenantcron.store.rows.schedule_cursors import CursorRow

CURSORS_A_BATCH = 1_000


async def recompute_for_new_zones(
    database: Database, at: datetime | None = None, version: str | None = None
) -> int:
    """Recompute what older zones have computed; return the number of cursors."""
    version, count, after = version or tz_version(), 0, UUID(int=0)
    while True:
        async with database.transaction() as connection:
            rows = await _recompute(connection, version, at, after)
        if not rows:
            return count
        count, after = count + len(rows), rows[-1].schedule_id


async def _recompute(
    connection: AsyncConnection, version: str, at: datetime | None, after: UUID
) -> list[CursorRow]:
    now = await times.moment(connection, at)
    found = await schedule_cursors.lock_with_older_zones(
        connection, version, now, after=after, batch=CURSORS_A_BATCH
    )
    rows = [rezone(row, now, version) for row in found]
    await schedule_cursors.change(connection, rows)
    return rows
