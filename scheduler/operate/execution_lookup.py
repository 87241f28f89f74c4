"""Find executions by their id or its first characters."""

import re
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import UsageError
from tenantcron.core.words import shortened
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.store.rows import execution_history
from tenantcron.store.rows.execution_history import AttemptRow, ExecutionRow

SHORTEST_PREFIX = 8
_DIGITS = 32
_AMBIGUOUS_SHOWN = 3
_HEX = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},{_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class ExecutionDetails:
    """An execution with all its attempts."""

    execution: ExecutionRow
    attempts: tuple[AttemptRow, ...]


def id_range(prefix: str) -> tuple[UUID, UUID]:
    """Return the first and the last id with a prefix."""
    digits = prefix.lower().replace("-", "")
    if _HEX.fullmatch(digits) is None:
        raise UsageError(
            f"{shortened(prefix)!a} is not an execution id or a prefix of at least "
            f"{SHORTEST_PREFIX} characters: `tenantcron execution list` shows ids"
        )
    return UUID(digits.ljust(_DIGITS, "0")), UUID(digits.ljust(_DIGITS, "f"))


async def find_execution(connection: AsyncConnection, prefix: str) -> ExecutionRow:
    """Return the only execution whose id has a prefix."""
    first, last = id_range(prefix)
    limit = _AMBIGUOUS_SHOWN + 1
    found = await execution_history.with_ids_between(connection, first, last, limit)
    if not found:
        raise UnknownError(
            f"no execution id begins with {prefix}: `tenantcron execution list` lists the retained "
            "executions"
        )
    if len(found) > 1:
        shown = ", ".join(str(row.id) for row in found[:_AMBIGUOUS_SHOWN])
        more = " and others" if len(found) > _AMBIGUOUS_SHOWN else ""
        raise UnknownError(
            f"several execution ids begin with {prefix}: use a longer prefix of {shown}{more}"
        )
    return found[0]


async def execution_details(connection: AsyncConnection, prefix: str) -> ExecutionDetails:
    """Return an execution and its attempts."""
    found = await find_execution(connection, prefix)
    attempts = await execution_history.attempts_of(connection, found)
    return ExecutionDetails(found, tuple(attempts))


async def locked(connection: AsyncConnection, found: ExecutionRow) -> ExecutionRow:
    """Return the row as it is now, locked."""
    row = await execution_history.lock(connection, found)
    if row is None:
        raise UnknownError(f"execution {found.id} is no longer in the retained history")
    return row
