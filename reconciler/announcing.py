"""Announcing: schedulers are notified of applied tenants, a few times a second at most.

NOTIFY takes a lock of the database at commit and keeps it until the commit is on disk. If every
tenant's transaction notified, their commits would queue up, one disk write after the other. So the
transactions of a fleet do not notify. Beside them, one transaction after another does nothing else:
the first as soon as a tenant is committed, the next ones while more follow, the last at the end.

A notification is a hint. If it is lost, because this process was killed or the database is away,
schedulers find what changed by its revision at their next periodic refresh.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from sqlalchemy.exc import DBAPIError

from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import tenants

SECONDS_BETWEEN = 0.2


@asynccontextmanager
async def announcing(database: Database) -> AsyncIterator[Callable[[], None]]:
    """Yield what is to be called after each commit that changed schedules."""
    changed, ended = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(_announce_often(database, changed, ended))
    try:
        yield changed.set
    finally:
        is_behind = changed.is_set()
        ended.set()
        changed.set()
        await task
        if is_behind:
            await _announce(database)


async def _announce_often(database: Database, changed: asyncio.Event, ended: asyncio.Event) -> None:
    while True:
        await changed.wait()
        changed.clear()
        if ended.is_set():
            return
        await _announce(database)
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_BETWEEN):
                await ended.wait()


async def _announce(database: Database) -> None:
    with suppress(DatabaseError, DBAPIError):
        async with database.transaction() as connection:
            await tenants.announce(connection)
