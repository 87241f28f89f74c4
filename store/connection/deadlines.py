"""Deadlines: every database call ends in time, whatever the server does.

A server can stop responding without closing a connection: its machine is gone, a firewall drops
packets, a proxy stalls. Three timeouts detect this, each in a different case:

- **The kernel**, with keepalives and `tcp_user_timeout` (see `database_urls`), if the other end
  does not acknowledge packets. It takes about 14 s.
- **The server**, with `statement_timeout`, if the statement is slow or waits for a lock. The
  connection stays usable.
- **The client**, here, if packets are acknowledged but no response arrives. It waits a little
  longer than the server, so it acts only if the server does not.

An expired connection is closed at the socket immediately. psycopg would ask the server to cancel
the statement first, and wait up to ten seconds for the response. Here the cancel request is sent in
the background, because a server that is only slow would continue and keep its locks. The same
happens if the caller is cancelled during a statement. Rollback, return to the pool and disposal
then find a closed connection and need no round trip.

A commit in progress at the deadline may or may not have succeeded, as with every lost connection.
All steps of the scheduler can be repeated.

A request of the API has one budget for all its calls (`budget`). Time spent waiting for connections
and inside transactions counts. Time spent on other work does not.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import psycopg
from psycopg import capabilities, generators, waiting
from psycopg.abc import AdaptContext, PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGcancelConn, PGconn

from tenantcron.store.connection.hosts import Hosts

# For commands and migrations, which may be slow and wait for each other.
LONGEST: Final = timedelta(minutes=10)
# The client's deadline as a multiple of the server's.
_MARGIN: Final = 1.2
# If a statement takes longer, its lock waits are inspected.
SLOW_SECONDS: Final = 5.0
_CANCEL_SECONDS: Final = 5.0
_INTERVAL: Final = 0.1
# For resolving names, in addition to the `connect_timeout` of each host.
_RESOLVE_SECONDS: Final = 5.0
# The meaning of `connect_timeout = 0` in psycopg.
_LONGEST_CONNECT: Final = 130

# For the first statement of a new connection.
_FIRST_ANSWER_SECONDS: Final = 10.0

T = TypeVar("T")


class NoAnswerError(psycopg.OperationalError):
    """The server did not respond in time. The connection is closed."""


class BudgetSpentError(Exception):
    """A request has used up its time for database calls."""


class BoundedConnection(psycopg.AsyncConnection[tuple[object, ...]]):
    """A connection with a deadline for every response. Closing it never waits for the server."""

    # Seconds. None: no deadline, for a caller that sets its own.
    answer_within: float | None = LONGEST.total_seconds()
    # Called with the server's process id when a statement is slow.
    on_slow: Callable[[int], None] | None = None
    # Whether no pooler is between this connection and its session, see `prepared`.
    is_direct = False

    async def wait(
        self, gen: PQGen[T], interval: float = _INTERVAL, timeout: float | None = None
    ) -> T:
        """Wait for a response. With a `timeout`, psycopg waits for notifications instead."""
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        slow = self._watch_slow()
        try:
            async with asyncio.timeout(self.answer_within):
                return await waiting.wait_async(gen, self.pgconn.socket, interval)
        except asyncio.CancelledError:
            self.cut()
            raise
        except TimeoutError as error:
            self.cut()
            raise NoAnswerError(f"no answer for {self.answer_within:g} s") from error
        finally:
            if slow is not None:
                slow.cancel()

    def _watch_slow(self) -> asyncio.TimerHandle | None:
        if self.on_slow is None:
            return None
        loop = asyncio.get_running_loop()
        return loop.call_later(SLOW_SECONDS, self.on_slow, self.pgconn.backend_pid)

    def cut(self) -> None:
        """Close the socket now; ask the server in the background to cancel the statement."""
        if self.closed:
            return
        if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
            _cancel_in_background(self.pgconn)
        self.pgconn.finish()


async def connect(
    conninfo: str = "",
    *,
    autocommit: bool = False,
    prepare_threshold: int | None = None,
    context: AdaptContext | None = None,
    answer_within: float | None = LONGEST.total_seconds(),
    **parameters: str,
) -> BoundedConnection:
    """Connect. The total time for all hosts is limited, including name resolution."""
    hosts = Hosts.of(conninfo_to_dict(conninfo, **parameters))
    try:
        async with asyncio.timeout(_seconds_to_connect(hosts)):
            connection = await BoundedConnection.connect(
                hosts.conninfo(),
                autocommit=autocommit,
                prepare_threshold=prepare_threshold,
                context=context,
            )
    except TimeoutError as error:
        raise psycopg.errors.ConnectionTimeout("connection timeout expired") from error
    hosts.remember(connection)
    connection.answer_within = answer_within
    return connection


async def connect_and_find_pooler(conninfo: str = "", **parameters: Any) -> BoundedConnection:
    """Connect as `connect` does, and find out whether a pooler is in between."""
    connection = await connect(conninfo, **parameters)
    is_autocommit = connection.autocommit
    try:
        async with asyncio.timeout(_FIRST_ANSWER_SECONDS):
            await connection.set_autocommit(True)
            cursor = await connection.execute("SELECT pg_catalog.pg_backend_pid()")
            connection.is_direct = await cursor.fetchone() == (connection.pgconn.backend_pid,)
            await connection.set_autocommit(is_autocommit)
    except TimeoutError as error:
        raise psycopg.errors.ConnectionTimeout("connection timeout expired") from error
    return connection


def patience(span: timedelta) -> float:
    """Return the client's timeout in seconds, for a `statement_timeout` of this span."""
    return span.total_seconds() * _MARGIN


@contextmanager
def budget(span: timedelta) -> Iterator[None]:
    """Let all database calls in a `with` block share one time budget."""
    before = _budget.set(_Budget(span.total_seconds()))
    try:
        yield
    finally:
        _budget.reset(before)


@asynccontextmanager
async def spending() -> AsyncIterator[None]:
    """Subtract the time of a call from the budget, if there is one."""
    shared = _budget.get()
    if shared is None:
        yield
        return
    now = asyncio.get_running_loop().time
    begun, limit = now(), asyncio.timeout(shared.seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise BudgetSpentError from error
        raise
    finally:
        shared.seconds -= now() - begun


@dataclass(slots=True)
class _Budget:
    """The remaining time."""

    seconds: float


_budget: ContextVar[_Budget | None] = ContextVar("tenantcron_database_budget", default=None)
# The event loop only keeps weak references.
_cancelling: set[asyncio.Task[None]] = set()


def _seconds_to_connect(hosts: Hosts) -> float:
    each = int(hosts.parameters.get("connect_timeout") or 0) or _LONGEST_CONNECT
    # A name may have an address of each family.
    return 2 * len(hosts.names) * each + _RESOLVE_SECONDS


def _cancel_in_background(pgconn: PGconn) -> None:
    if not capabilities.has_cancel_safe():
        return  # an older libpq would block
    task = asyncio.get_running_loop().create_task(_cancel(pgconn.cancel_conn()))
    _cancelling.add(task)
    task.add_done_callback(_cancelling.discard)


async def _cancel(connection: PGcancelConn) -> None:
    # The statement may have ended already, and the connection is closed either way.
    with suppress(psycopg.Error, OSError, TimeoutError):
        async with asyncio.timeout(_CANCEL_SECONDS):
            connection.start()
            await waiting.wait_conn_async(generators.cancel(connection), _INTERVAL)
