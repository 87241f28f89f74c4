"""Notifies schedulers of applied tenants, at most a few times a second.

NOTIFY takes a database-wide lock at commit and holds it until the commit is on disk. If the
transaction of every tenant sent a notification, their commits would be serialised. So the
transactions of a fleet do not notify. Separate transactions do: the first one as soon as a tenant
is committed, more while tenants follow, and the last one at the end.

A notification is a hint. If it is lost, because this process was killed or the database is not
reachable, schedulers find the changed revisions at their next periodic refresh.
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
    """Yield the function to call after each commit that changed schedules."""
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
