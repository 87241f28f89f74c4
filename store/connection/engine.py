"""The engine: transactions and statements on the database.

No state outlives a transaction, so the database may be behind a pooler in transaction mode: no SET
outside a transaction, no session-level locks, and prepared statements only where no pooler is in
between (`prepared`). The scheduler's LISTEN connection is separate (`listening`).

A transaction begins with its isolation level and all settings that our statements depend on, in one
round trip; `pins` lists them with the reasons. The search path is `pg_catalog`, so every table,
type and function of ours is schema-qualified, and an unqualified name is a built-in. The hot steps
of the scheduler, which look up rows by key, request suitable plans (`by_key`).

psycopg would send its own BEGIN before ours, so the driver is in autocommit mode, and the `begin`
event sends our BEGIN. The driver still commits and rolls back: it checks the state of the
connection, not the mode.

`seen_by` and `patient` return the database for callers with fewer rights or a deadline. It uses the
same connections, and its transactions begin with further settings.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto
from functools import partial

import psycopg
from psycopg.sql import SQL, Literal
from pydantic_core import from_json
from sqlalchemy import Connection, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.store.connection import deadlines
from tenantcron.store.connection.crowding import with_retries
from tenantcron.store.connection.database_urls import DatabaseTarget, target_of
from tenantcron.store.connection.deadlines import BoundedConnection, BudgetSpentError, spending
from tenantcron.store.connection.driver_errors import explain, explain_cause, is_read_only
from tenantcron.store.connection.errors import DatabaseAwayError, ServerTooOldError
from tenantcron.store.connection.idle_connections import close_idle_connections
from tenantcron.store.connection.pins import begin_script, begin_script_with_few
from tenantcron.store.connection.prepared import Preparing, prepare_statements
from tenantcron.store.embedded.server import embedded_server
from tenantcron.store.schema.tables import TENANT_SCHEMA

OLDEST_SERVER = 14
# The maximum; connections are opened on demand and closed when idle. There is no overflow: it would
# be closed after every transaction, and opening a connection costs more than most transactions.
_CONNECTIONS = 16

# How long a transaction waits for a connection by default.
PATIENCE = timedelta(seconds=30)
# Execution option: additional statements at the start of a transaction.
_OPENING = "tenantcron_opening"
# Execution option: how many seconds the client waits for each response.
_WITHIN = "tenantcron_answer_within"
_ON_SLOW = "tenantcron_on_slow"
# The role to which row-level security applies, and the tenant it acts for. With `row_security` off,
# a statement that it would filter fails instead.
_SEEN_BY = SQL(
    "; SET LOCAL row_security TO on; SET LOCAL ROLE tenantcron_api;"
    " SET LOCAL tenantcron.tenant TO {}"
)
_PATIENT = SQL("; SET LOCAL statement_timeout TO {}")
_IMPATIENT = SQL("; SET LOCAL lock_timeout TO {}")
_BY_KEY = "tenantcron_by_key"
_IS_SMALL = "tenantcron_is_small"
_READ_ONLY = "tenantcron_read_only"
# Execution option: the pins at the start of a transaction.
_PINS = "tenantcron_pins"


class Pins(Enum):
    """Which settings of the server, database and role a transaction overrides."""

    ALL = auto()
    # Only the search path, for statements that depend on nothing else.
    FEW = auto()
    # No transaction at all, for statements that depend on no setting; see `glances`.
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Database:
    """An open database; the connections of its engine belong to the running event loop."""

    engine: AsyncEngine
    target: DatabaseTarget
    # Additional statements at the start of each transaction.
    opening: str = ""
    # Seconds that the client waits for each response; see `deadlines`.
    answer_within: float = deadlines.LONGEST.total_seconds()
    # Called with the server's process id of a connection whose statement is slow.
    on_slow: Callable[[int], None] | None = None
    # Whether it is a standby, on which transactions only read.
    read_only: bool = False
    # The outer transaction that all transactions are part of.
    joined: AsyncConnection | None = None

    def seen_by(self, tenant: TenantId | None) -> "Database":
        """Return the database as a request sees it: one tenant, or all with None; read only.

        The role must exist, see `api_role.is_usable`.
        """
        statements = _SEEN_BY.format(Literal("*" if tenant is None else str(tenant)))
        return replace(self, opening=self.opening + statements.as_string())

    def patient(self, span: timedelta) -> "Database":
        """Return the database with a timeout per statement, enforced by server and client."""
        statement = _PATIENT.format(Literal(int(span.total_seconds() * 1000)))
        opening = self.opening + statement.as_string()
        return replace(self, opening=opening, answer_within=deadlines.patience(span))

    def impatient(self, span: timedelta) -> "Database":
        """Return the database with a lock timeout."""
        statement = _IMPATIENT.format(Literal(int(span.total_seconds() * 1000)))
        return replace(self, opening=self.opening + statement.as_string())

    def joining(self, connection: AsyncConnection) -> "Database":
        """Return the database with all transactions nested in the transaction of a connection.

        Several steps are then atomic, together with the caller's own statements.
        """
        return replace(self, joined=connection)

    async def fetch(
        self, statement: str, parameters: Mapping[str, object]
    ) -> list[tuple[object, ...]]:
        """Run one statement as a transaction in one round trip, instead of three.

        The driver reads the rows after the transaction, when the session's own settings apply
        again. So a statement cannot return times or intervals: return microseconds instead. It is
        sent again if the server was restarted, so it must be idempotent.
        """
        with self._explaining():
            async with spending():
                try:
                    return await self._fetch_once(statement, parameters)
                except psycopg.OperationalError:
                    # The other connections of the pool are dead as well.
                    await self.engine.dispose()
                    return await self._fetch_once(statement, parameters)

    async def _fetch_once(
        self, statement: str, parameters: Mapping[str, object]
    ) -> list[tuple[object, ...]]:
        async with self.engine.connect() as connection:
            return await _sent(connection, statement, parameters, self.answer_within)

    async def glance(
        self, statement: str, parameters: Mapping[str, object]
    ) -> list[tuple[object, ...]]:
        """Run one statement without a transaction and without pins; see `glances`."""
        with self._explaining():
            async with spending(), self.engine.connect() as connection:
                await connection.execution_options(**self._options(Pins.NONE, by_key=False))
                try:
                    rows = await connection.exec_driver_sql(statement, parameters)
                except DBAPIError as error:
                    if not error.connection_invalidated:
                        raise
                    await connection.rollback()
                    rows = await connection.exec_driver_sql(statement, parameters)
                return [tuple(row) for row in rows]

    @asynccontextmanager
    async def transaction(
        self, *, by_key: bool = False, is_small: bool = False, pins: Pins = Pins.ALL
    ) -> AsyncIterator[AsyncConnection]:
        """Open a READ COMMITTED transaction: committed at the end, rolled back on an exception.

        The statements of a small one, which touches few rows by key, are prepared (`prepared`).
        Raises a DatabaseError if the connection fails or is lost.
        """
        options = self._options(pins, by_key=by_key, is_small=is_small)
        with self._explaining():
            async with spending(), self._begun(options) as connection:
                yield connection

    @asynccontextmanager
    async def awaiting(self) -> AsyncIterator[None]:
        """Wait for a transaction of another task, with the time and the errors of this one."""
        with self._explaining():
            async with spending():
                yield

    def _options(self, pins: Pins, *, by_key: bool, is_small: bool = False) -> dict[str, object]:
        return {
            _PINS: pins,
            _BY_KEY: by_key or is_small,
            _IS_SMALL: is_small,
            _READ_ONLY: self.read_only,
            _OPENING: self.opening,
            _WITHIN: self.answer_within,
            _ON_SLOW: self.on_slow,
        }

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            explained = explain(error, self.target)
            if explained is None:
                raise
            raise explained from error
        except psycopg.Error as error:  # from `fetch`, which bypasses SQLAlchemy
            lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
            explained = explain_cause(error, self.target, statement="BEGIN", is_lost=lost)
            if explained is None:
                raise
            raise explained from error
        except PendingRollbackError as error:
            # A statement after the one that lost the connection.
            raise DatabaseAwayError(
                f"the connection to {self.target} was lost. The transaction is rolled back; "
                "run it again"
            ) from error
        except (NoConnectionError, BudgetSpentError) as error:
            raise DatabaseAwayError(
                f"{self.target} did not respond in time: retry, or check that the server runs"
            ) from error

    @asynccontextmanager
    async def _begun(self, options: Mapping[str, object]) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction.

        BEGIN fails if the server was restarted since the connection was last used. Then all
        connections of the pool are dead, and the second try opens a new one.
        """
        if self.joined is not None:
            async with self.joined.begin_nested():
                yield self.joined
            return
        async with self.engine.connect() as connection:
            await connection.execution_options(**options)
            try:
                await connection.begin()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                await connection.rollback()
                await connection.begin()
            yield connection
            await connection.commit()


@asynccontextmanager
async def open_database(
    settings: Settings, patience: timedelta = PATIENCE
) -> AsyncIterator[Database]:
    """Connect to the database of the settings, or to the embedded server if they have no URL.

    `patience` is how long a transaction waits for a connection.
    """
    async with _target(settings) as target, _engine(target, patience) as engine:
        database = Database(engine, target)
        await _check_server(database)
        yield database


@asynccontextmanager
async def open_replica(url: str, patience: timedelta) -> AsyncIterator[Database]:
    """Open a standby for reads; it may be down, so nothing is checked here."""
    target = target_of(url)
    async with _engine(target, patience) as engine:
        yield Database(engine, target, read_only=True)


@asynccontextmanager
async def lone_database(target: DatabaseTarget) -> AsyncIterator[Database]:
    """Open a database with a single connection, for the event loop of another thread."""
    async with _engine(target, PATIENCE, connections=1) as engine:
        yield Database(engine, target)


def of_tenant(connection: AsyncConnection, schema: str) -> AsyncConnection:
    """Point the tables of `tables.per_tenant` at a tenant's schema, and return the connection.

    It changes the connection itself, without a round trip, until the end of the transaction or the
    next call: a connection serves one tenant at a time. Control tables are not affected. Without
    this call, statements name the placeholder schema, which does not exist, and fail.
    """
    if connection.sync_connection is None:
        raise RuntimeError("the connection is not open")
    connection.sync_connection.execution_options(schema_translate_map={TENANT_SCHEMA: schema})
    return connection


@asynccontextmanager
async def _target(settings: Settings) -> AsyncIterator[DatabaseTarget]:
    if settings.database_url is not None:
        yield target_of(settings.database_url)
        return
    # Only a run without a URL needs the extra.
    async with embedded_server(settings.folder, settings.embedded_linger) as target:
        yield target


@asynccontextmanager
async def _engine(
    target: DatabaseTarget, patience: timedelta, connections: int = _CONNECTIONS
) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(
        "postgresql+psycopg://",
        # Not in the URL: an engine shows its URL in messages, and these contain the password.
        connect_args={
            **target.parameters,
            "prepare_threshold": None,
            "async_creator_fn": with_retries(
                deadlines.connect_and_find_pooler, patience.total_seconds()
            ),
        },
        # Statement errors end up in logs; parameters include payloads and the URLs of webhooks.
        hide_parameters=True,
        isolation_level="AUTOCOMMIT",
        pool_size=connections,
        max_overflow=0,
        # The last used connection has warm caches; the others may become idle and close.
        pool_use_lifo=True,
        pool_timeout=patience.total_seconds(),
        use_native_hstore=False,
        # Three times as fast as the standard library; a refresh reads thousands of documents.
        json_deserializer=from_json,
    )
    preparing = Preparing()
    event.listen(engine.sync_engine, "begin", partial(_begin, preparing))
    close_idle_connections(engine.sync_engine)
    event.listen(engine.sync_engine, "handle_error", discard_read_only)
    event.listen(engine.sync_engine, "handle_error", preparing.discard_stale)
    try:
        yield engine
    finally:
        await engine.dispose()


async def _sent(
    connection: AsyncConnection,
    statement: str,
    parameters: Mapping[str, object],
    answer_within: float,
) -> list[tuple[object, ...]]:
    driver = _driver((await connection.get_raw_connection()).driver_connection)
    driver.answer_within, driver.on_slow = answer_within, None
    script = f"{begin_script(driver.pgconn.server_version)}; {statement}; COMMIT"
    try:
        # Client-side binding: the protocol does not support parameters for several statements.
        cursor = psycopg.AsyncClientCursor(driver)
        await cursor.execute(script.encode(), parameters)
        # The last result is COMMIT's.
        await cursor.set_result(-2)
        return list(await cursor.fetchall())
    except BaseException:
        # A cancelled caller leaves the connection in an unknown state.
        await connection.invalidate()
        raise


def _begin(preparing: Preparing, connection: Connection) -> None:
    options = connection.get_execution_options()
    driver = _driver(connection.connection.driver_connection)
    driver.answer_within, driver.on_slow = options.get(_WITHIN), options.get(_ON_SLOW)
    is_prepared = preparing.begins(driver, is_small=options.get(_IS_SMALL, False))
    match options.get(_PINS, Pins.ALL):
        case Pins.NONE:
            return
        case Pins.FEW:
            begin = begin_script_with_few()
        case _:
            # The version of this connection: the server may have been upgraded in between.
            begin = begin_script(
                driver.pgconn.server_version,
                by_key=options.get(_BY_KEY, False),
                generic_plans=is_prepared,
                read_only=options.get(_READ_ONLY, False),
            )
    connection.exec_driver_sql(begin + options.get(_OPENING, ""))
    if is_prepared:
        prepare_statements(driver)


def discard_read_only(context: ExceptionContext) -> None:
    """Treat a connection to a standby as lost, which closes all connections of the pool."""
    if is_read_only(context.original_exception, context.statement):
        context.is_disconnect = True


def _driver(connection: object) -> BoundedConnection:
    if not isinstance(connection, BoundedConnection):
        raise TypeError("the engine requires psycopg")
    return connection


async def _check_server(database: Database) -> None:
    async with database.transaction() as connection:
        found = connection.dialect.server_version_info
    major = int(found[0]) if found else 0
    if major < OLDEST_SERVER:
        raise ServerTooOldError(
            f"{database.target} is PostgreSQL {major}: tenantcron needs {OLDEST_SERVER} or newer"
        )
