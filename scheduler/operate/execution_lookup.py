"""Find executions by their id or its first characters."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.execution_ids import ambiguous, id_range, unknown
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.store.rows import execution_history, live_logs
from tenantcron.store.rows.execution_history import AttemptRow, ExecutionRow
from tenantcron.store.rows.live_logs import RunningLog

# Enough to show that a prefix is ambiguous.
_CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class ExecutionDetails:
    """An execution with its ended attempts, and the log of the running one."""

    execution: ExecutionRow
    attempts: tuple[AttemptRow, ...]
    running_log: RunningLog | None


async def find_execution(connection: AsyncConnection, prefix: str) -> ExecutionRow:
    """Return the only execution whose id has a prefix."""
    first, last = id_range(prefix)
    found = await execution_history.with_ids_between(connection, first, last, _CANDIDATES)
    if not found:
        raise UnknownError(unknown(prefix))
    if len(found) > 1:
        raise UnknownError(ambiguous(prefix, [str(row.id) for row in found]))
    return found[0]


async def execution_details(connection: AsyncConnection, prefix: str) -> ExecutionDetails:
    """Return the only execution whose id has a prefix, with its attempts."""
    return await details_of(connection, await find_execution(connection, prefix))


async def details_of(connection: AsyncConnection, found: ExecutionRow) -> ExecutionDetails:
    """Return an execution with its attempts."""
    # In this order, an attempt that ends between the two is not returned twice.
    attempts = await execution_history.attempts_of(connection, found)
    running_log = await live_logs.read(connection, found)
    return ExecutionDetails(found, tuple(attempts), running_log)


async def locked(connection: AsyncConnection, found: ExecutionRow) -> ExecutionRow:
    """Return the row as it is now, locked."""
    row = await execution_history.lock(connection, found)
    if row is None:
        raise UnknownError(f"execution {found.id} is no longer in the retained history")
    return row
