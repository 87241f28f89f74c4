"""The engine: how every statement gets to the database.

Nothing lives longer than a transaction, so that a pooling proxy that hands out server connections
per transaction may stand in between: no named prepared statements, no SET outside a transaction,
no session-level locks. The one LISTEN connection of the scheduler is not made here.

A transaction begins with its isolation level and all settings that our statements depend on, in one
round trip; `pins` has the list with the reasons. The search path is `pg_catalog`, so every table,
type and function of ours is named with its schema, and what is left unqualified is a built-in. The
hot steps of the scheduler, which look up rows by their keys, ask for plans that fit (`by_key`).

psycopg would send its own BEGIN ahead of ours, so the driver is put in autocommit mode and the
`begin` event sends the transaction's first words. Commit and rollback stay the driver's: it looks
at the state of the connection, not at the mode.

Whoever works for somebody who may not see all opens the database again with `seen_by` or
`patient`: the same connections, and transactions that begin with a few words more.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto

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
from tenantcron.store.connection.crowding import persistent
from tenantcron.store.connection.database_urls import DatabaseTarget, target_of
from tenantcron.store.connection.deadlines import BoundedConnection, BudgetSpentError, spending
from tenantcron.store.connection.driver_errors import explain, explain_cause, is_read_only
from tenantcron.store.connection.errors import DatabaseAwayError, ServerTooOldError
from tenantcron.store.connection.idle_connections import close_idle_connections
from tenantcron.store.connection.pins import beginning, beginning_with_few
from tenantcron.store.embedded.server import embedded_server
from tenantcron.store.schema.tables import TENANT_SCHEMA

OLDEST_SERVER = 14
# At most; each is opened when it is needed and closed when it has been idle for a while. One beyond
# the pool's size would be closed after every transaction, and a new one costs more than most
# transactions.
_CONNECTIONS = 16

# How long a transaction waits for a connection where nothing else is said.
PATIENCE = timedelta(seconds=30)
# The name under which a connection carries the words that its transactions begin with.
_OPENING = "tenantcron_opening"
# And the seconds that it waits for each answer.
_WITHIN = "tenantcron_answer_within"
_ON_SLOW = "tenantcron_on_slow"
# The role that row-level security holds for, and whom it acts for. With `row_security` off, a
# statement that it would filter fails instead.
_SEEN_BY = SQL(
    "; SET LOCAL row_security TO on; SET LOCAL ROLE tenantcron_api;"
    " SET LOCAL tenantcron.tenant TO {}"
)
_PATIENT = SQL("; SET LOCAL statement_timeout TO {}")
_IMPATIENT = SQL("; SET LOCAL lock_timeout TO {}")
_BY_KEY = "tenantcron_by_key"
# Which pins a transaction begins with.
_PINS = "tenantcron_pins"


class Pins(Enum):
    """What a transaction pins of the settings of server, database and role."""

    ALL = auto()
    # The search path alone: for a statement that depends on nothing else.
    FEW = auto()
    # Not even a transaction: for a statement that depends on nothing, see `glances`.
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Database:
    """An open database; its engine's connections belong to the running event loop."""

    engine: AsyncEngine
    target: DatabaseTarget
    # What transactions begin with, besides what all do.
    opening: str = ""
    # Seconds that the client waits for each answer; see `deadlines`.
    answer_within: float = deadlines.LONGEST.total_seconds()
    # Called with the server's process id of a connection whose statement is slow.
    on_slow: Callable[[int], None] | None = None
    # The transaction that others have become a part of.
    joined: AsyncConnection | None = None

    def seen_by(self, tenant: TenantId | None) -> "Database":
        """Return the database as a request sees it: one tenant, or all with None; read only.

        The role must be there, as `api_role.is_usable` tells.
        """
        words = _SEEN_BY.format(Literal("*" if tenant is None else str(tenant)))
        return replace(self, opening=self.opening + words.as_string())

    def patient(self, span: timedelta) -> "Database":
        """Return the database with a deadline for each statement, kept by server and client."""
        words = _PATIENT.format(Literal(int(span.total_seconds() * 1000)))
        opening = self.opening + words.as_string()
        return replace(self, opening=opening, answer_within=deadlines.patience(span))

    def impatient(self, span: timedelta) -> "Database":
        """Return the database with statements that wait for a lock for so long at most."""
        words = _IMPATIENT.format(Literal(int(span.total_seconds() * 1000)))
        return replace(self, opening=self.opening + words.as_string())

    def joining(self, connection: AsyncConnection) -> "Database":
        """Return the database with all transactions as parts of the one that the connection is in.

        What several steps do is then done whole or not at all, with what the caller adds to it.
        """
        return replace(self, joined=connection)

    async def ask(
        self, statement: str, parameters: Mapping[str, object]
    ) -> list[tuple[object, ...]]:
        """Run one statement as a transaction in one round trip, instead of three.

        The driver reads the rows when the transaction has ended and the session's own settings
        apply again, so it cannot return times or intervals: return microseconds instead. If it has
        to be sent again, because the server was restarted since, it must do no harm twice.
        """
        with self._explaining():
            async with spending():
                try:
                    return await self._asked(statement, parameters)
                except psycopg.OperationalError:
                    # The other connections of the pool are as old as this one was.
                    await self.engine.dispose()
                    return await self._asked(statement, parameters)

    async def _asked(
        self, statement: str, parameters: Mapping[str, object]
    ) -> list[tuple[object, ...]]:
        async with self.engine.connect() as connection:
            return await _sent(connection, statement, parameters, self.answer_within)

    async def glance(
        self, statement: str, parameters: Mapping[str, object]
    ) -> list[tuple[object, ...]]:
        """Run one statement without a transaction and with nothing pinned; see `glances`."""
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
        self, *, by_key: bool = False, pins: Pins = Pins.ALL
    ) -> AsyncIterator[AsyncConnection]:
        """One READ COMMITTED transaction: committed at the end, rolled back on an exception.

        A connection that cannot be made or gets lost is raised as a DatabaseError.
        """
        with self._explaining():
            async with spending(), self._begun(pins, by_key=by_key) as connection:
                yield connection

    def _options(self, pins: Pins, *, by_key: bool) -> dict[str, object]:
        return {
            _PINS: pins,
            _BY_KEY: by_key,
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
        except psycopg.Error as error:  # of `ask`, which goes past SQLAlchemy
            lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
            explained = explain_cause(error, self.target, statement="BEGIN", is_lost=lost)
            if explained is None:
                raise
            raise explained from error
        except PendingRollbackError as error:
            # A statement after the one that lost the connection.
            raise DatabaseAwayError(
                f"the connection to {self.target} was lost. What was in progress is undone; "
                "run it again"
            ) from error
        except (NoConnectionError, BudgetSpentError) as error:
            raise DatabaseAwayError(
                f"{self.target} did not answer in time: try again, and see that the server runs"
            ) from error

    @asynccontextmanager
    async def _begun(self, pins: Pins, *, by_key: bool) -> AsyncIterator[AsyncConnection]:
        """A connection inside a transaction.

        Its first words find out if the server was restarted since the connection was last used:
        then all that the pool has are dead, and the second try makes a new one.
        """
        if self.joined is not None:
            async with self.joined.begin_nested():
                yield self.joined
            return
        async with self.engine.connect() as connection:
            await connection.execution_options(**self._options(pins, by_key=by_key))
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
    """Connect to the database of the settings, or to the embedded server if they name none.

    `patience` is how long a transaction waits for one of the connections.
    """
    async with _target(settings) as target, _engine(target, patience) as engine:
        database = Database(engine, target)
        await _check_server(database)
        yield database


@asynccontextmanager
async def lone_database(target: DatabaseTarget) -> AsyncIterator[Database]:
    """Open a database with a single connection, for the event loop of another thread."""
    async with _engine(target, PATIENCE, connections=1) as engine:
        yield Database(engine, target)


def of_tenant(connection: AsyncConnection, schema: str) -> AsyncConnection:
    """Point the tables of `tables.per_tenant` at a tenant's schema, and return the connection.

    It changes the connection itself, without a round trip, until the transaction ends or the next
    call: one connection speaks for one tenant at a time. Control tables are not affected. Where it
    was not called, statements name the placeholder schema, which no database has, and fail.
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
    # Only who runs without a URL needs the extra.
    async with embedded_server(settings.folder) as target:
        yield target


@asynccontextmanager
async def _engine(
    target: DatabaseTarget, patience: timedelta, connections: int = _CONNECTIONS
) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(
        "postgresql+psycopg://",
        # Not in the URL: an engine shows its URL in messages, and this holds the password.
        connect_args={
            **target.parameters,
            "prepare_threshold": None,
            "async_creator_fn": persistent(deadlines.connect, patience.total_seconds()),
        },
        # Errors of statements end up in logs; payloads and the URLs of webhooks are parameters.
        hide_parameters=True,
        isolation_level="AUTOCOMMIT",
        pool_size=connections,
        max_overflow=0,
        # The one that was used last knows the tables and plans already; the others may rest.
        pool_use_lifo=True,
        pool_timeout=patience.total_seconds(),
        use_native_hstore=False,
        # Three times as fast as the standard library's, and a refresh reads thousands of documents.
        json_deserializer=from_json,
    )
    event.listen(engine.sync_engine, "begin", _begin)
    close_idle_connections(engine.sync_engine)
    event.listen(engine.sync_engine, "handle_error", discard_read_only)
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
    script = f"{beginning(driver.pgconn.server_version)}; {statement}; COMMIT"
    try:
        # The parameters become literals, because the protocol has none for several statements.
        cursor = psycopg.AsyncClientCursor(driver)
        await cursor.execute(script.encode(), parameters)
        # The last result is COMMIT's.
        await cursor.set_result(-2)
        return list(await cursor.fetchall())
    except BaseException:
        # Somebody who waited no longer leaves a connection in the middle of something.
        await connection.invalidate()
        raise


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    driver = _driver(connection.connection.driver_connection)
    driver.answer_within, driver.on_slow = options.get(_WITHIN), options.get(_ON_SLOW)
    match options.get(_PINS, Pins.ALL):
        case Pins.NONE:
            return
        case Pins.FEW:
            begin = beginning_with_few()
        case _:
            # Of this connection: the server may have been upgraded since another one was made.
            begin = beginning(driver.pgconn.server_version, by_key=options.get(_BY_KEY, False))
    connection.exec_driver_sql(begin + options.get(_OPENING, ""))


def discard_read_only(context: ExceptionContext) -> None:
    """Treat a connection to a standby as lost: it, and all others of the pool, are closed."""
    if is_read_only(context.original_exception, context.statement):
        context.is_disconnect = True


def _driver(connection: object) -> BoundedConnection:
    if not isinstance(connection, BoundedConnection):
        raise TypeError("the engine is made for psycopg")
    return connection


async def _check_server(database: Database) -> None:
    async with database.transaction() as connection:
        found = connection.dialect.server_version_info
    major = int(found[0]) if found else 0
    if major < OLDEST_SERVER:
        raise ServerTooOldError(
            f"{database.target} is PostgreSQL {major}: tenantcron needs {OLDEST_SERVER} or newer"
        )
