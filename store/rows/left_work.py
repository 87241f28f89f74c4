"""Ended executions whose work at a target may still run, because no replica waited for it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

# Older work has reached its own time limit, or a replica has looked at it before.
LOOK_BACK: Final = timedelta(days=1)
MOST_AT_ONCE: Final = 500
# An execution may wait for its attempts. The index has the scheduled time only.
_LONGEST_LIFE: Final = timedelta(days=1)


class EndedExecution(NamedTuple):
    """An execution that was cancelled or has failed."""

    id: UUID
    scheduled_for: datetime
    definition_id: UUID
    finished_at: datetime


_ENDED = """
SELECT id, scheduled_for, definition_id, finished_at
FROM tenantcron.execution
WHERE
    state IN ('CANCELLED', 'DEAD') AND attempt > 0 AND requires = ANY(%(requires)s::text[])
    AND scheduled_for >= %(since)s::timestamptz - %(life)s::interval
    AND finished_at >= %(since)s::timestamptz
ORDER BY finished_at
LIMIT %(most)s
"""


async def ended_since(
    connection: AsyncConnection, requires: Sequence[str], since: datetime
) -> list[EndedExecution]:
    """Return executions with these requirements that started and ended without a success."""
    parameters = {
        "requires": list(requires),
        "since": since,
        "life": _LONGEST_LIFE,
        "most": MOST_AT_ONCE,
    }
    rows = await connection.exec_driver_sql(_ENDED, parameters)
    return [EndedExecution(*columns) for columns in map(tuple, rows)]


_LOCK_ENDED = """
SELECT FROM tenantcron.execution
WHERE
    id = %(id)s AND scheduled_for = %(scheduled_for)s AND state IN ('CANCELLED', 'DEAD')
FOR SHARE SKIP LOCKED
"""


async def lock_ended(connection: AsyncConnection, execution: EndedExecution) -> bool:
    """Keep an operator from retrying an execution until the transaction ends.

    Return False if it is retried already, or is about to be.
    """
    parameters = {"id": execution.id, "scheduled_for": execution.scheduled_for}
    rows = await connection.exec_driver_sql(_LOCK_ENDED, parameters)
    return rows.first() is not None
