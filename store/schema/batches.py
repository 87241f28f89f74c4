"""Statements over many tenant schemas, about fifty at a time."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import psycopg
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.connection.driver_errors import first_line

# With more schemas per statement, planning costs more than the saved round trips.
SCHEMAS_A_STATEMENT = 50

# Why a schema cannot be read that another session is dropping or altering.
LOCKED = "another session holds a lock on its tables"

# Tenants with their schemas.
Batch = Sequence[tuple[TenantId, str]]


async def read_in_batches(
    connection: AsyncConnection,
    schemas: Mapping[TenantId, str],
    read: Callable[[Batch], Awaitable[None]],
) -> dict[TenantId, str]:
    """Read all schemas; return the tenants whose schema cannot be read, with the reason."""
    broken: dict[TenantId, str] = {}
    every = list(schemas.items())
    for start in range(0, len(every), SCHEMAS_A_STATEMENT):
        await _read(connection, every[start : start + SCHEMAS_A_STATEMENT], read, broken)
    return broken


async def _read(
    connection: AsyncConnection,
    batch: Batch,
    read: Callable[[Batch], Awaitable[None]],
    broken: dict[TenantId, str],
) -> None:
    """Read a batch; if a schema in it is broken, bisect the batch to isolate it."""
    try:
        async with connection.begin_nested():
            await read(batch)
    except (ProgrammingError, OperationalError) as error:
        if isinstance(error, OperationalError) and not _is_locked(error):
            raise
        if len(batch) == 1:
            broken[batch[0][0]] = LOCKED if _is_locked(error) else first_line(error.orig)
            return
        middle = len(batch) // 2
        await _read(connection, batch[:middle], read, broken)
        await _read(connection, batch[middle:], read, broken)


def _is_locked(error: DBAPIError) -> bool:
    return isinstance(error.orig, psycopg.errors.LockNotAvailable)
