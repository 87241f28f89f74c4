"""The one connection that lives longer than a transaction: it listens for notifications.

It must reach the server itself or a proxy that keeps sessions. Behind one that hands out server
connections per transaction nothing is heard; that costs time, never schedules.
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

# A connection can die without a word. Asking now and then finds it out.
_SILENCE = 15.0
_PATIENCE = 5.0


class ListeningError(Exception):
    """The connection cannot be made or is lost; the text has no password in it."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One notification."""

    channel: str
    payload: str


@asynccontextmanager
async def listening(target: DatabaseTarget, *channels: str) -> AsyncIterator[AsyncIterator[Heard]]:
    """Listen on channels; once inside the block, whatever is committed is heard."""
    try:
        async with await connect(
            make_conninfo("", **target.parameters), autocommit=True, answer_within=_PATIENCE
        ) as connection:
            for channel in channels:
                await connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
            async with aclosing(_heard(connection)) as heard:
                yield heard
    except (psycopg.Error, OSError) as error:
        raise ListeningError(first_line(error)) from error


async def _heard(connection: BoundedConnection) -> AsyncGenerator[Heard]:
    while True:
        async with aclosing(connection.notifies(timeout=_SILENCE)) as notifies:
            async for one in notifies:
                yield Heard(one.channel, one.payload)
        await connection.execute("SELECT")
