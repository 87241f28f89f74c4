"""The only connection that outlives a transaction: it listens for notifications.

It must connect to the server directly or through a pooler in session mode. A pooler in transaction
mode delivers no notifications; work is then picked up later by polling, never lost.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from tenantcron.store.connection.database_urls import DatabaseTarget
from tenantcron.store.connection.deadlines import BoundedConnection, connect
from tenantcron.store.connection.driver_errors import first_line

# A connection can die silently, so an empty query checks it after this many quiet seconds.
_SILENCE = 15.0
_PATIENCE = 5.0


class ListeningError(Exception):
    """The connection failed or was lost; the text contains no password."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A received notification."""

    channel: str
    payload: str


@asynccontextmanager
async def listening(
    target: DatabaseTarget, *channels: str
) -> AsyncIterator[AsyncIterator[Notification]]:
    """Listen on channels; every notification that is committed inside the block is received."""
    try:
        async with await connect(
            make_conninfo("", **target.parameters), autocommit=True, answer_within=_PATIENCE
        ) as connection:
            for channel in channels:
                await connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
            async with aclosing(_notifications(connection)) as notifications:
                yield notifications
    except (psycopg.Error, OSError) as error:
        raise ListeningError(first_line(error)) from error


async def _notifications(connection: BoundedConnection) -> AsyncGenerator[Notification]:
    while True:
        async with aclosing(connection.notifies(timeout=_SILENCE)) as notifies:
            async for notify in notifies:
                yield Notification(notify.channel, notify.payload)
        await connection.execute("SELECT")
