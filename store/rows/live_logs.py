"""Rows of `live_log`: log lines of running attempts. `scheduler.steps.live_logs` has the protocol.

Readers see only the rows of the attempt that is running according to its execution. Other rows are
leftovers of an attempt whose end and last lines were written at the same moment, or which a remote
worker continued. The next attempt deletes them, or housekeeping does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.arrays import texts, uuids, words
from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.store.rows.executions import State
from tenantcron.store.schema.tables import execution, live_log
from tenantcron.store.steps.claiming import Claimed
from tenantcron.store.steps.statements import statement

_OF_ATTEMPTS: Final = """
DELETE FROM tenantcron.live_log AS l
USING unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS g (id, attempt)
WHERE l.execution_id = g.id AND l.attempt = g.attempt
"""
_TAKE: Final = f"""
WITH taken AS ({_OF_ATTEMPTS} RETURNING l.execution_id, l.end_position, l.lines)
SELECT
    execution_id, min(end_position - length(lines)) > 0 AS is_cut,
    string_agg(lines, '' ORDER BY end_position) AS lines
FROM taken
GROUP BY execution_id
"""  # noqa: S608 -- a constant
_CUT: Final = "…\n"


class NewLines(NamedTuple):
    """New log lines of an attempt, and how many characters it has logged including these."""

    claimed: Claimed
    end_position: int
    lines: str
    # Whether they replace all lines that are stored.
    replaces: bool


@dataclass(frozen=True, slots=True)
class RunningLog:
    """The log of a running attempt so far: its last lines."""

    attempt: int
    # How many characters of the log precede them.
    position: int
    lines: str

    @property
    def text(self) -> str:
        """The lines, with a mark if earlier ones are missing."""
        return _marked(self.lines, is_cut=self.position > 0)


async def add(connection: AsyncConnection, added: Sequence[NewLines]) -> None:
    """Store new lines of attempts that still hold their leases."""
    parameters = {
        "ids": uuids(new.claimed.id for new in added),
        "tokens": uuids(new.claimed.lease_token for new in added),
        "attempts": words(new.claimed.attempt for new in added),
        "end_positions": words(new.end_position for new in added),
        "replaces": words(str(new.replaces).lower() for new in added),
        "lines": texts(new.lines for new in added),
    }
    await connection.exec_driver_sql(statement("add_log_lines"), parameters)


async def read(connection: AsyncConnection, found: ExecutionRow) -> RunningLog | None:
    """Return the log of the attempt that is running, if it has logged anything."""
    if found.state is not State.RUNNING:
        return None
    columns = live_log.c
    rows = await connection.execute(
        select(columns.end_position, columns.lines)
        .where(columns.execution_id == found.id, columns.attempt == found.attempt)
        .order_by(columns.end_position)
    )
    parts = [(end, lines) for end, lines in rows]
    if not parts:
        return None
    end, first = parts[0]
    return RunningLog(found.attempt, end - len(first), "".join(lines for _, lines in parts))


async def forget(connection: AsyncConnection, ended: Sequence[Claimed]) -> None:
    """Delete the lines of attempts that have ended."""
    await connection.exec_driver_sql(_OF_ATTEMPTS, _parameters(ended))


async def take(connection: AsyncConnection, lost: Sequence[Claimed]) -> dict[UUID, str]:
    """Delete the lines of lost attempts, and return them."""
    rows = await connection.exec_driver_sql(_TAKE, _parameters(lost))
    return {key: _marked(lines, is_cut=is_cut) for key, is_cut, lines in map(tuple, rows)}


async def forget_leftovers(connection: AsyncConnection) -> None:
    """Delete the lines of attempts that do not run."""
    is_running = exists().where(
        execution.c.id == live_log.c.execution_id,
        execution.c.attempt == live_log.c.attempt,
        execution.c.state == State.RUNNING,
    )
    await connection.execute(delete(live_log).where(~is_running))


def _parameters(claimed: Sequence[Claimed]) -> dict[str, str]:
    return {
        "ids": uuids(each.id for each in claimed),
        "attempts": words(each.attempt for each in claimed),
    }


def _marked(lines: str, *, is_cut: bool) -> str:
    return (_CUT if is_cut else "") + lines
