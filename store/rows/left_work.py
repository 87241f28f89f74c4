"""Ended executions whose work at a target may still run, because no replica waited for it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.arrays import times, uuids

# Older work has reached its own time limit, or a replica has looked at it before.
LOOK_BACK: Final = timedelta(days=1)
MOST_AT_ONCE: Final = 500
# An execution may wait for its attempts. The index has the scheduled time only.
_LONGEST_LIFE: Final = timedelta(days=1)


class Position(NamedTuple):
    """A place in the order in which executions ended."""

    finished_at: datetime
    # Executions can end in the same transaction.
    execution: UUID = UUID(int=0)


class EndedExecution(NamedTuple):
    """An execution that was cancelled or has failed."""

    id: UUID
    scheduled_for: datetime
    definition_id: UUID
    finished_at: datetime

    @property
    def position(self) -> Position:
        """Its place in the order."""
        return Position(self.finished_at, self.id)


_ENDED = """
SELECT id, scheduled_for, definition_id, finished_at
FROM tenantcron.execution
WHERE
    state IN ('CANCELLED', 'DEAD') AND attempt > 0 AND requires = ANY(%(requires)s::text[])
    AND scheduled_for >= %(since)s::timestamptz - %(life)s::interval
    AND (finished_at, id) > (%(since)s::timestamptz, %(after)s::uuid)
ORDER BY finished_at, id
LIMIT %(most)s
"""


async def ended_after(
    connection: AsyncConnection, requires: Sequence[str], after: Position
) -> list[EndedExecution]:
    """Return executions with these requirements that started and ended without a success."""
    parameters = {
        "requires": list(requires),
        "since": after.finished_at,
        "after": after.execution,
        "life": _LONGEST_LIFE,
        "most": MOST_AT_ONCE,
    }
    rows = await connection.exec_driver_sql(_ENDED, parameters)
    return [EndedExecution(*columns) for columns in map(tuple, rows)]


_MARK = """
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(at)s::timestamptz, statement_timestamp()) AS now
),
ended AS MATERIALIZED (
    SELECT e.id, e.scheduled_for, coalesce(e.stopping_until <= clock.now, true) AS is_free
    FROM unnest(%(ids)s::uuid[], %(scheduled_for)s::timestamptz[]) AS g (id, scheduled_for)
    JOIN tenantcron.execution AS e ON e.id = g.id AND e.scheduled_for = g.scheduled_for
    CROSS JOIN clock
    WHERE e.state IN ('CANCELLED', 'DEAD')
    ORDER BY e.id
    FOR NO KEY UPDATE OF e
),
marked AS (
    UPDATE tenantcron.execution AS e
    SET stopping_until = clock.now + %(mark)s::interval
    FROM ended, clock
    WHERE
        e.id = ended.id AND e.scheduled_for = ended.scheduled_for
        AND e.state IN ('CANCELLED', 'DEAD') AND ended.is_free
)
SELECT id, is_free FROM ended
"""


async def mark(
    connection: AsyncConnection,
    executions: Sequence[EndedExecution],
    mark: timedelta,
    at: datetime | None,
) -> dict[UUID, bool]:
    """Keep the next attempt of executions from starting, in case an operator retries them.

    Return whether each one was marked: False if it has the mark of another replica. An execution
    that is retried already is not returned.
    """
    parameters = {**_keys(executions), "mark": mark, "at": at}
    rows = await connection.exec_driver_sql(_MARK, parameters)
    return {row.id: row.is_free for row in rows}


_UNMARK = """
UPDATE tenantcron.execution AS e
SET stopping_until = NULL
FROM unnest(%(ids)s::uuid[], %(scheduled_for)s::timestamptz[]) AS g (id, scheduled_for)
WHERE
    e.id = g.id AND e.scheduled_for = g.scheduled_for AND e.state IN ('CANCELLED', 'DEAD')
"""


async def unmark(connection: AsyncConnection, executions: Sequence[EndedExecution]) -> None:
    """Remove the marks of executions."""
    await connection.exec_driver_sql(_UNMARK, _keys(executions))


def _keys(executions: Sequence[EndedExecution]) -> dict[str, object]:
    return {
        "ids": uuids(execution.id for execution in executions),
        "scheduled_for": times(execution.scheduled_for for execution in executions),
    }
