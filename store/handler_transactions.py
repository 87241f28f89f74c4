"""Transactions for handlers: on the schema of one tenant, with the actor set for audit triggers.

Handlers have connections of their own. They may hold one for as long as they run, and the
scheduler's own statements, heartbeats above all, must never wait for them. Both engines are made
by the first handler that asks.

A transaction begins with its isolation level, the settings of `pins`, the search path and the
actor, in one round trip.
All of it ends with the transaction, so a pooling proxy may stand in between, as in `engine`.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final

from psycopg.sql import SQL, Composed, Identifier, Literal
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tenantcron.actor.attribution import Attribution
from tenantcron.store.deadlines import connect
from tenantcron.store.engine import discard_read_only
from tenantcron.store.pins import beginning_for_handlers
from tenantcron.store.scripts import run_script
from tenantcron.store.targets import Target

URL: Final = "postgresql+psycopg://"

# pg_catalog is searched before the tenant's schema although it is not named.
_OPENING: Final = SQL("; SET LOCAL search_path TO {schema}; SELECT {settings}")


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How many connections are kept, and how many more there may be for a while."""

    kept: int = 5
    more: int = 15


class HandlerTransactions:
    """Opens transactions for handlers; `close` when no handler runs any more."""

    def __init__(self, target: Target, size: PoolSize | None = None) -> None:
        self.target = target
        self._size = size or PoolSize()
        self._lock = Lock()
        self._engine: AsyncEngine | None = None
        self._plain_engine: Engine | None = None

    @asynccontextmanager
    async def begin(self, schema: str, who: Attribution) -> AsyncIterator[AsyncConnection]:
        """One transaction of an async handler."""
        async with self._async().begin() as connection:
            await connection.run_sync(run_script, _opening(schema, who))
            yield connection

    @contextmanager
    def begin_plain(self, schema: str, who: Attribution) -> Iterator[Connection]:
        """One transaction of a plain handler."""
        with self._plain().begin() as connection:
            run_script(connection, _opening(schema, who))
            yield connection

    async def close(self) -> None:
        """Close all connections that nobody uses; those in use are closed when they come back."""
        if self._engine is not None:
            await self._engine.dispose()
        if self._plain_engine is not None:
            self._plain_engine.dispose()

    def _async(self) -> AsyncEngine:
        if self._engine is None:
            self._engine = create_async_engine(
                URL,
                # No deadline for an answer: an execution has one, and cancels its handler.
                connect_args=_connect_args(self.target)
                | {"async_creator_fn": partial(connect, answer_within=None)},
                isolation_level="AUTOCOMMIT",
                pool_pre_ping=True,
                pool_size=self._size.kept,
                max_overflow=self._size.more,
                use_native_hstore=False,
            )
            event.listen(self._engine.sync_engine, "handle_error", discard_read_only)
        return self._engine

    def _plain(self) -> Engine:
        # Two threads at once must not make two engines: one would never be closed.
        with self._lock:
            if self._plain_engine is None:
                self._plain_engine = create_engine(
                    URL,
                    connect_args=_connect_args(self.target),
                    isolation_level="AUTOCOMMIT",
                    pool_pre_ping=True,
                    pool_size=self._size.kept,
                    max_overflow=self._size.more,
                    use_native_hstore=False,
                )
                event.listen(self._plain_engine, "handle_error", discard_read_only)
            return self._plain_engine


def _connect_args(target: Target) -> dict[str, object]:
    """Not in the URL, and no named prepared statements: the reasons stand in `engine`."""
    return {**target.parameters, "prepare_threshold": None}


def _opening(schema: str, who: Attribution) -> str:
    settings = SQL(", ").join(_setting(*setting) for setting in who.settings().items())
    opening = _OPENING.format(schema=Identifier(schema), settings=settings)
    return beginning_for_handlers() + opening.as_string()


def _setting(name: str, value: str) -> Composed:
    # True: until the end of the transaction, so that a pooled connection keeps nothing of it.
    return SQL("pg_catalog.set_config({}, {}, true)").format(Literal(name), Literal(value))
