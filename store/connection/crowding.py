"""Connecting to a server that has no free connection slot.

All programs on the server share `max_connections`, so it can be exhausted for a moment: during a
rolling upgrade, or after a failover when all clients reconnect at once. The server then rejects the
connection immediately. So it is retried with exponential backoff, for as long as a transaction
waits for a connection. The backoff is random, so that rejected replicas do not retry together.

Only messages in English are recognised: before a session exists, libpq returns the text of the
error without a code.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import uniform
from typing import Final, ParamSpec, TypeVar

import psycopg

_TOO_MANY_CONNECTIONS: Final = "53300"
# Messages of PostgreSQL: for all users, non-superusers, a role or a database. The last is of
# PgBouncer.
_MESSAGES: Final = (
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
    """Whether a server rejected a connection because it has no free slot."""
    if not isinstance(cause, psycopg.Error):
        return False
    text = str(cause)
    return cause.sqlstate == _TOO_MANY_CONNECTIONS or any(known in text for known in _MESSAGES)


def with_retries(connect: Callable[P, Awaitable[T]], seconds: float) -> Callable[P, Awaitable[T]]:
    """Return a function that connects, and retries for this long if the server has no free slot."""

    async def connect_with_retries(*arguments: P.args, **parameters: P.kwargs) -> T:
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

    return connect_with_retries
