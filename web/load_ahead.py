"""What is due in the next 24 hours, as timetables: kept for half a minute, and shared.

It is the longest read of the overview: a row for each schedule. The page asks again every five
seconds for each viewer, and what it shows is drawn by quarters of an hour. So viewers who see the
fleet share one answer. A viewer who sees one tenant gets that tenant's, which is not kept.
"""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.rows import schedule_cursors
from tenantcron.store.rows.schedule_cursors import SharedTimetable
from tenantcron.web.forecast_charts import end_of_day_ahead

# The bound of what one look may cost; the page says so where it is met.
MOST_CURSORS: Final = 100_000
KEPT: Final = timedelta(seconds=30)


class LoadAhead:
    """The timetables of the fleet; one per process that serves pages."""

    def __init__(self) -> None:
        self._read_at: datetime | None = None
        self._timetables: list[SharedTimetable] = []

    async def timetables(
        self, connection: AsyncConnection, now: datetime, bound_to: TenantId | None
    ) -> list[SharedTimetable]:
        """Return the timetables that are due; `now` is the database's time."""
        if bound_to is not None:
            return await _read(connection, now)
        if self._read_at is None or not self._read_at <= now < self._read_at + KEPT:
            self._timetables = await _read(connection, now)
            self._read_at = now
        return self._timetables


async def _read(connection: AsyncConnection, now: datetime) -> list[SharedTimetable]:
    until = end_of_day_ahead(now)
    return await schedule_cursors.due_before(connection, until, at=now, most=MOST_CURSORS)
