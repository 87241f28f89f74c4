"""Transactions for handlers: on the schema of one tenant, with the actor set for audit triggers.

Handlers have separate connections. They may hold one for as long as they run, and the scheduler's
own statements, such as heartbeats, must never wait for them. The first handler that needs an engine
creates it.

A connection logs in as the role of its tenant (`handler_roles`) and is used for no other tenant
(`handler_pool`). If the login fails, the role is repaired once: it may be new, or its password may
have changed. A missing privilege is granted before the tenant's next transaction, if it is allowed:
the platform may have created tables since.

A transaction begins with its isolation level, the settings of `pins`, the search path and the
actor, in one round trip. The proof of its lease follows as a parameter: other sessions of the
tenant can read the text of statements in pg_stat_activity, but not their parameters. All settings
end with the transaction, so a pooler in transaction mode works, as in `engine`.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Final, Protocol

from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Composed, Identifier, Literal
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tenantcron.actor.attribution import Attribution
from tenantcron.core.names import TenantId
from tenantcron.store.connection.database_urls import DatabaseTarget
from tenantcron.store.connection.deadlines import connect
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import discard_read_only
from tenantcron.store.connection.handler_pool import (
    AsyncLoginPool,
    LoginPool,
    isolate_connections,
    logged_in_as,
)
from tenantcron.store.connection.pins import begin_script_for_handlers
from tenantcron.store.connection.scripts import run_script
from tenantcron.store.schema.handler_roles import INSTEAD, HandlerRoleError, Login
from tenantcron.store.steps.claiming import Lease

URL: Final = "postgresql+psycopg://"
MOST_CONNECTIONS: Final = 20

# pg_catalog is searched before the tenant's schema implicitly.
_OPENING: Final = SQL("; SET LOCAL search_path TO {schema}; SELECT {settings}")
_PROVE: Final = "SELECT pg_catalog.set_config('tenantcron.lease', %(proof)s, true)"


@dataclass(frozen=True, slots=True)
class HandlerScope:
    """The schema and the actor of a transaction, and the proof of its lease for the database."""

    tenant: TenantId
    schema: str
    who: Attribution
    proof: str = ""


def proof_of(lease: Lease) -> str:
    """Return the proof of a lease for `tenantcron.acting`. It does not reveal the lease."""
    execution_id, token = lease
    return sha256(f"{token}/{execution_id}".encode()).hexdigest()


class Logins(Protocol):
    """Provides the logins of tenants' handlers; raises a HandlerRoleError if there is none."""

    async def get(self, tenant: TenantId, *, repair: bool = False) -> Login:
        """Ensure that the role exists, and return its login; a repair sets the password."""

    def get_plain(self, tenant: TenantId, *, repair: bool = False) -> Login:
        """Return the login in a plain thread."""

    def forget(self, tenant: TenantId) -> None:
        """Check the role's rights before its next login."""


class HandlerTransactions:
    """Opens transactions for handlers; call `close` after the last handler has ended.

    Without logins they use the scheduler's role, which does not isolate tenants.
    """

    def __init__(
        self,
        target: DatabaseTarget,
        logins: Logins | None = None,
        size: int = MOST_CONNECTIONS,
        share: int | None = None,
    ) -> None:
        """Of `size` connections a tenant uses `share` at a time; by default half of them."""
        self.target = target
        self.logins = logins
        self._size = size
        self._share = size if logins is None else share or max(1, size // 2)
        self._lock = Lock()
        self._engine: AsyncEngine | None = None
        self._plain_engine: Engine | None = None

    @asynccontextmanager
    async def begin(self, scope: HandlerScope) -> AsyncIterator[AsyncConnection]:
        """Open a transaction of an async handler."""
        with self._noticing_rights(scope):
            stack, connection = await self._begun(scope)
            async with stack:
                yield connection

    @contextmanager
    def begin_plain(self, scope: HandlerScope) -> Iterator[Connection]:
        """Open a transaction of a plain handler."""
        with self._noticing_rights(scope):
            stack, connection = self._begun_plain(scope)
            with stack:
                yield connection

    async def close(self) -> None:
        """Close all idle connections; those in use are closed when they are returned."""
        if self._engine is not None:
            await self._engine.dispose()
        if self._plain_engine is not None:
            self._plain_engine.dispose()

    async def _begun(self, scope: HandlerScope) -> tuple[AsyncExitStack, AsyncConnection]:
        """Begin a transaction; retry once if the connection was lost while idle."""
        try:
            return await self._begun_once(scope)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        # The pool has closed all older connections.
        return await self._begun_once(scope)

    async def _begun_once(self, scope: HandlerScope) -> tuple[AsyncExitStack, AsyncConnection]:
        async with AsyncExitStack() as stack:
            connection = await self._connect(stack, scope)
            await stack.enter_async_context(connection.begin())
            await connection.run_sync(run_script, _opening(scope))
            await connection.exec_driver_sql(_PROVE, {"proof": scope.proof})
            return stack.pop_all(), connection

    def _begun_plain(self, scope: HandlerScope) -> tuple[ExitStack, Connection]:
        try:
            return self._begun_plain_once(scope)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
        return self._begun_plain_once(scope)

    def _begun_plain_once(self, scope: HandlerScope) -> tuple[ExitStack, Connection]:
        with ExitStack() as stack:
            connection = stack.enter_context(self._connect_plain(scope))
            stack.enter_context(connection.begin())
            run_script(connection, _opening(scope))
            connection.exec_driver_sql(_PROVE, {"proof": scope.proof})
            return stack.pop_all(), connection

    async def _connect(self, stack: AsyncExitStack, scope: HandlerScope) -> AsyncConnection:
        engine = self._async()
        if self.logins is None:
            return await stack.enter_async_context(engine.connect())
        try:
            with logged_in_as(await self.logins.get(scope.tenant)):
                return await stack.enter_async_context(engine.connect())
        except OperationalError:
            login = await self.logins.get(scope.tenant, repair=True)
        with _explaining(login), logged_in_as(login):
            return await stack.enter_async_context(engine.connect())

    def _connect_plain(self, scope: HandlerScope) -> Connection:
        if self.logins is None:
            return self._plain().connect()
        try:
            with logged_in_as(self.logins.get_plain(scope.tenant)):
                return self._plain().connect()
        except OperationalError:
            login = self.logins.get_plain(scope.tenant, repair=True)
        with _explaining(login), logged_in_as(login):
            return self._plain().connect()

    @contextmanager
    def _noticing_rights(self, scope: HandlerScope) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            if self.logins is not None and isinstance(error.orig, InsufficientPrivilege):
                self.logins.forget(scope.tenant)
            raise

    def _async(self) -> AsyncEngine:
        if self._engine is None:
            self._engine = create_async_engine(
                URL,
                # No client timeout: the execution has a deadline, which cancels its handler.
                connect_args=_connect_args(self.target)
                | {"async_creator_fn": partial(connect, answer_within=None)},
                isolation_level="AUTOCOMMIT",
                poolclass=AsyncLoginPool,
                pool_size=self._size,
                pool_share=self._share,
                pool_reset_on_return=None,
                use_native_hstore=False,
            )
            event.listen(self._engine.sync_engine, "handle_error", discard_read_only)
            isolate_connections(self._engine.sync_engine, by_login=self.logins is not None)
        return self._engine

    def _plain(self) -> Engine:
        # Two threads must not create two engines: one would never be closed.
        with self._lock:
            if self._plain_engine is None:
                self._plain_engine = create_engine(
                    URL,
                    connect_args=_connect_args(self.target),
                    isolation_level="AUTOCOMMIT",
                    poolclass=LoginPool,
                    pool_size=self._size,
                    pool_share=self._share,
                    pool_reset_on_return=None,
                    use_native_hstore=False,
                )
                event.listen(self._plain_engine, "handle_error", discard_read_only)
                isolate_connections(self._plain_engine, by_login=self.logins is not None)
            return self._plain_engine


def _connect_args(target: DatabaseTarget) -> dict[str, object]:
    """Return the connection parameters; see `engine` for the reasons."""
    return {**target.parameters, "prepare_threshold": None}


@contextmanager
def _explaining(login: Login) -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise HandlerRoleError(
            f"cannot log in as {login.user}: {first_line(error.orig)}. Configure pg_hba.conf and "
            f"the pooler to accept this role with its password. {INSTEAD}"
        ) from error


def _opening(scope: HandlerScope) -> str:
    settings = SQL(", ").join(_setting(*setting) for setting in scope.who.settings().items())
    opening = _OPENING.format(schema=Identifier(scope.schema), settings=settings)
    return begin_script_for_handlers() + opening.as_string()


def _setting(name: str, value: str) -> Composed:
    # True: until the end of the transaction, so that a pooled connection does not keep it.
    return SQL("pg_catalog.set_config({}, {}, true)").format(Literal(name), Literal(value))
