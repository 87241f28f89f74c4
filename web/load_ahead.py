"""The timetables that are due in the next 24 hours, cached for 30 seconds.

This is the most expensive read of the overview: a row for each schedule. Each viewer's page polls
every five seconds, but the chart has a resolution of 15 minutes. So all viewers of the fleet share
a cached result. The result for a viewer who is restricted to a tenant is not cached.
"""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.rows import schedule_cursors
from tenantcron.store.rows.schedule_cursors import SharedTimetable
from tenantcron.web.forecast_charts import end_of_day_ahead

# Limits the cost of a request; the page shows when it is reached.
MOST_CURSORS: Final = 100_000
KEPT: Final = timedelta(seconds=30)


class LoadAhead:
    """The cached timetables of the fleet, one cache per process."""

    def __init__(self) -> None:
        self._read_at: datetime | None = None
        self._timetables: list[SharedTimetable] = []

    async def timetables(
        self, connection: AsyncConnection, now: datetime, bound_to: TenantId | None
    ) -> list[SharedTimetable]:
        """Return the timetables that are due; `now` is the time of the database."""
        if bound_to is not None:
            return await _read(connection, now)
        if self._read_at is None or not self._read_at <= now < self._read_at + KEPT:
            self._timetables = await _read(connection, now)
            self._read_at = now
        return self._timetables


async def _read(connection: AsyncConnection, now: datetime) -> list[SharedTimetable]:
    until = end_of_day_ahead(now)
    return await schedule_cursors.due_before(connection, until, at=now, most=MOST_CURSORS)
