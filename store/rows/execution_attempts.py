"""Rows of `execution_attempt`, as the scheduler asks for them: when a series of attempts began.

The steps of the scheduler write them (`sql/finish.sql`); people read them in `execution_history`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.arrays import times, uuids, words
from tenantcron.store.steps.statements import statement


@dataclass(frozen=True, slots=True)
class Series:
    """The attempts of an execution from the first to one that has begun."""

    execution_id: UUID
    scheduled_for: datetime
    first: int
    # When its latest attempt began, which has no row while it runs.
    latest: datetime


async def begun(
    connection: AsyncConnection, series: Sequence[Series], at: datetime | None
) -> dict[UUID, timedelta]:
    """Return how long ago each series began."""
    parameters = {
        "at": at,
        "ids": uuids(one.execution_id for one in series),
        "scheduled_for": times(one.scheduled_for for one in series),
        "firsts": words(one.first for one in series),
        "latest": times(one.latest for one in series),
    }
    rows = await connection.exec_driver_sql(statement("begun"), parameters)
    return {row[0]: row[1] for row in map(tuple, rows)}
