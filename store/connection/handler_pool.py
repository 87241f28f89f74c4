"""Connections of handlers: each belongs to one login and is reset before reuse.

The pool reuses a connection only for the login that opened it, so the session state of a handler
never reaches another tenant. Between handlers of one tenant, `DISCARD ALL` removes temporary
tables, settings, roles, prepared statements, cursors, advisory locks and LISTEN when a connection
is returned. If the reset fails, the connection is closed.

All logins share one limit, and each login may use only a part of it at a time, so that one tenant
cannot take all connections. If the limit is reached, the connection with the longest idle time is
closed. Idle connections are closed after a while as well, except for two.

A handler can store settings for its role (`ALTER ROLE CURRENT_USER SET`), and each new session of
the tenant would begin with them. The pool rejects such a session, and the repair of the login
removes the settings.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any, Final, Protocol

from psycopg import OperationalError
from sqlalchemy import Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, Dialect
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, Pool, PoolResetState
from sqlalchemy.util import await_only

from tenantcron.store.connection.idle_connections import KEPT, LONGEST_IDLE
from tenantcron.store.schema.handler_roles import INSTEAD, HandlerRoleError, Login

_USER: Final = "tenantcron_user"
_SINCE: Final = "tenantcron_idle_since"
# The role of the session, and whether it began with settings that a role can store for itself.
_BEGUN: Final = """
SELECT session_user, EXISTS (
    SELECT FROM pg_catalog.pg_db_role_setting AS s
    JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
    CROSS JOIN pg_catalog.unnest(s.setconfig) AS stored
    LEFT JOIN pg_catalog.pg_settings AS g ON g.name = pg_catalog.split_part(stored, '=', 1)
    WHERE r.rolname = session_user
        AND s.setdatabase IN (0, (
            SELECT d.oid FROM pg_catalog.pg_database AS d
            WHERE d.datname = pg_catalog.current_database()
        ))
        AND (g.context = 'user' OR pg_catalog.starts_with(stored, 'role='))
)
"""
# None: no login was requested, which is always the case without roles.
_login: ContextVar[Login | None] = ContextVar("tenantcron_handler_login", default=None)


@contextmanager
def logged_in_as(login: Login | None) -> Iterator[None]:
    """Use this login for connections that a `with` block takes from a pool."""
    before = _login.set(login)
    try:
        yield
    finally:
        _login.reset(before)


def isolate_connections(engine: Engine, *, by_login: bool) -> None:
    """Reset the connections of an engine on return; if `by_login`, open each as its login."""
    event.listen(engine, "reset", _reset)
    event.listen(engine, "connect", _connected)
    if by_login:
        event.listen(engine, "do_connect", _connect)


class LoginPool(Pool):
    """The connections of plain handlers."""

    _slots: "_Slots"

    def __init__(
        self,
        creator: Any,
        pool_size: int = 20,
        pool_share: int = 10,
        timeout: float = 30.0,
        **options: Any,
    ) -> None:
        super().__init__(creator, **options)
        self._size, self._share, self._timeout = pool_size, pool_share, timeout
        self._lock = threading.Lock()
        self._slots = self._new_slots()
        # The number of open connections, and the idle ones in the order of their return.
        self._open = 0
        self._idle: list[ConnectionPoolEntry] = []
        # The users whose slots the connections in use hold.
        self._users: dict[ConnectionPoolEntry, str | None] = {}

    def _new_slots(self) -> "_Slots":
        return _ThreadSlots(self._size, self._share)

    def _do_get(self) -> ConnectionPoolEntry:
        user = _user()
        if not self._slots.acquire(user, self._timeout):
            raise PoolTimeoutError(
                f"all {self._size} connections of handlers, or the {self._share} that one tenant "
                f"may use, were in use for {self._timeout:g} s"
            )
        try:
            entry = self._idle_entry() or self._create_connection()
        except BaseException:
            self._gone(user)
            raise
        self._users[entry] = user
        return entry

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        user = self._users.pop(record)
        if record.dbapi_connection is None:
            self._gone(user)
            return
        record.info[_SINCE] = monotonic()
        with self._lock:
            self._idle.append(record)
        self._slots.release(user)

    def _idle_entry(self) -> ConnectionPoolEntry | None:
        """Return an entry of the current login, or a closed one to reuse; None to create one."""
        with self._lock:
            entry = self._chosen()
            closing = [old for old in self._idle[:-KEPT] if _is_old(old)]
            self._idle = [kept for kept in self._idle if kept not in (entry, *closing)]
            self._open += (entry is None) - len(closing)
        for old in closing:
            old.close()
        if entry is not None and not _is_own(entry):
            entry.close()
        return entry

    def _chosen(self) -> ConnectionPoolEntry | None:
        own = next((entry for entry in reversed(self._idle) if _is_own(entry)), None)
        if own is None and self._open >= self._size:
            return self._idle[0]
        return own

    def _gone(self, user: str | None) -> None:
        with self._lock:
            self._open -= 1
        self._slots.release(user)

    def recreate(self) -> Pool:
        """Return an empty pool of the same kind."""
        return type(self)(
            self._creator,
            pool_size=self._size,
            pool_share=self._share,
            timeout=self._timeout,
            pre_ping=self._pre_ping,
            reset_on_return=self._reset_on_return,
            _dispatch=self.dispatch,
            dialect=self._dialect,
        )

    def dispose(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._open -= len(idle)
        for entry in idle:
            entry.close()

    def status(self) -> str:
        """Describe the pool."""
        return f"{self._open} of {self._size} connections, {len(self._idle)} idle"


class AsyncLoginPool(LoginPool):
    """The connections of async handlers."""

    _is_asyncio = True

    def _new_slots(self) -> "_Slots":
        return _LoopSlots(self._size, self._share)


class _Slots(Protocol):
    """One slot per connection, of which each login may use a share."""

    def acquire(self, user: str | None, timeout: float) -> bool: ...

    def release(self, user: str | None) -> None: ...


class _ThreadSlots:
    def __init__(self, size: int, share: int) -> None:
        self._all, self._share = threading.Semaphore(size), share
        self._own: dict[str | None, threading.Semaphore] = {}

    def acquire(self, user: str | None, timeout: float) -> bool:
        deadline = monotonic() + timeout
        # The share first: a login that waits for its share must not hold a common slot.
        own = self._own.setdefault(user, threading.Semaphore(self._share))
        if not own.acquire(timeout=timeout):
            return False
        if self._all.acquire(timeout=max(deadline - monotonic(), 0)):
            return True
        own.release()
        return False

    def release(self, user: str | None) -> None:
        self._all.release()
        self._own[user].release()


class _LoopSlots:
    def __init__(self, size: int, share: int) -> None:
        self._all, self._share = asyncio.Semaphore(size), share
        self._own: dict[str | None, asyncio.Semaphore] = {}

    def acquire(self, user: str | None, timeout: float) -> bool:
        try:
            await_only(self._acquired(user, timeout))
        except TimeoutError:
            return False
        return True

    async def _acquired(self, user: str | None, timeout: float) -> None:
        own = self._own.setdefault(user, asyncio.Semaphore(self._share))
        async with asyncio.timeout(timeout):
            await own.acquire()
            try:
                await self._all.acquire()
            except BaseException:
                own.release()
                raise

    def release(self, user: str | None) -> None:
        self._all.release()
        self._own[user].release()


def _user() -> str | None:
    login = _login.get()
    return None if login is None else login.user


def _is_own(entry: ConnectionPoolEntry) -> bool:
    return bool(entry.info[_USER] == _user())


def _is_old(entry: ConnectionPoolEntry) -> bool:
    return monotonic() - float(entry.info[_SINCE]) > LONGEST_IDLE


def _connect(
    dialect: Dialect, _: object, arguments: tuple[Any, ...], parameters: dict[str, Any]
) -> DBAPIConnection:
    login = _login.get()
    if login is None:
        # Otherwise a connection lost in a handler would be replaced by one of the scheduler.
        raise HandlerRoleError("the connection was lost or closed: call connection() again")
    # A copy, because all connections share the parameters.
    own = {"user": login.user, "password": login.password}
    return dialect.connect(*arguments, **{**parameters, **own})


def _connected(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    """Reject a session of another role: a pooler may use one role for all logins.

    A session that began with stored settings fails like a login, so that the login is repaired.
    """
    entry.info[_USER] = user = _user()
    if user is None:
        return
    cursor = connection.cursor()
    cursor.execute(_BEGUN)
    [[found, has_settings]] = cursor.fetchall()
    cursor.close()
    if found != user:
        raise HandlerRoleError(
            f"the session of role {user} belongs to {found}: configure the pooler to pass the "
            f"user on. {INSTEAD}"
        )
    if has_settings:
        raise OperationalError(f"role {user} has settings: run ALTER ROLE {user} RESET ALL")


def _reset(connection: DBAPIConnection, _: object, state: PoolResetState) -> None:
    if state.terminate_only:
        return
    if not state.transaction_was_reset:
        connection.rollback()
    if not connection.autocommit:
        connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("DISCARD ALL")
    cursor.close()
