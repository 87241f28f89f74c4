"""Rows of `execution_attempt` for the scheduler: when a series of attempts began.

The steps of the scheduler write them (`steps/finish.sql`); `execution_history` shows them.
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
    """The attempts of an execution up to the current one."""

    execution_id: UUID
    scheduled_for: datetime
    first: int
    # The start of the current attempt, which has no row while it runs.
    latest: datetime


async def begun(
    connection: AsyncConnection, series: Sequence[Series], at: datetime | None
) -> dict[UUID, timedelta]:
    """Return how long ago each series began."""
    parameters = {
        "at": at,
        "ids": uuids(attempts.execution_id for attempts in series),
        "scheduled_for": times(attempts.scheduled_for for attempts in series),
        "firsts": words(attempts.first for attempts in series),
        "latest": times(attempts.latest for attempts in series),
    }
    rows = await connection.exec_driver_sql(statement("begun"), parameters)
    return {row[0]: row[1] for row in map(tuple, rows)}
