"""Connecting to a server whose connections are all taken.

`max_connections` is shared with every other program on the server, so it can be used up for a
moment: during a rolling upgrade, or after a failover when all clients come back at once. The
server refuses at once then, so a connection that is needed is tried again, after longer and longer
pauses, until the time is up that a transaction waits for a connection. The pauses are random, so
that replicas that were refused together do not come back together.

A server in another language than English is not recognised: before a session exists, libpq passes
on the text of the refusal only.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import uniform
from typing import Final, ParamSpec, TypeVar

import psycopg

_TOO_MANY_CONNECTIONS: Final = "53300"
# Of PostgreSQL: for all, for superusers, for a role and for a database. The last is PgBouncer's.
_WORDS: Final = (
    "too many clients already",
    "remaining connection slots are reserved",
    "too many connections for",
    "no more connections allowed",
)
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0

P = ParamSpec("P")
T = TypeVar("T")


def is_crowded(cause: BaseException | None) -> bool:
    """Whether a server refused a connection because it has no more."""
    if not isinstance(cause, psycopg.Error):
        return False
    return cause.sqlstate == _TOO_MANY_CONNECTIONS or any(words in str(cause) for words in _WORDS)


def persistent(connect: Callable[P, Awaitable[T]], seconds: float) -> Callable[P, Awaitable[T]]:
    """Return a function that connects, for so long again and again if the server is crowded."""

    async def connect_persistently(*arguments: P.args, **parameters: P.kwargs) -> T:
        now, pause = asyncio.get_running_loop().time, _FIRST_PAUSE
        until = now() + seconds
        while True:
            try:
                return await connect(*arguments, **parameters)
            except psycopg.OperationalError as error:
                if not is_crowded(error) or now() + pause > until:
                    raise
            await asyncio.sleep(uniform(pause / 2, pause))  # noqa: S311 -- not for secrets
            pause = min(2 * pause, _LONGEST_PAUSE)

    return connect_persistently
