"""Shared fixtures of the interleavings: a stage, and the exploration of all orders."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from support.interleaving import Program, Ran, explorer
from support.invariants import violations
from support.restoring import remember
from support.scheduling import Scheduling
from support.stages import Stage

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import open_database

Check = Callable[[Ran], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Theatre:
    """A stage, and every order of its programs."""

    stage: Stage
    url: str
    settings: Settings

    async def every_order(
        self, programs: Mapping[str, Program], check: Check, *, may_deadlock: bool = False
    ) -> int:
        """Run all orders of the programs; check the invariants and more after each."""
        orders = 0
        async with (
            await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection,
            explorer(self.url, self.settings, list(programs)) as sessions,
        ):
            restorer = await remember(connection)
            async for ran in sessions.orders(restorer.restore, programs):
                orders += 1
                assert may_deadlock or not ran.deadlocked, f"a deadlock in\n{ran}"
                assert await violations(self.stage.scheduling.database) == {}, f"after\n{ran}"
                try:
                    await check(ran)
                except AssertionError as error:
                    error.add_note(f"in the order\n{ran}")
                    raise
        return orders


@pytest.fixture
async def theatre(database_url: str, tmp_path: Path) -> AsyncIterator[Theatre]:
    """An empty stage; Postgres checks for deadlocks sooner than by default."""
    settings = Settings(database_url=database_url, folder=tmp_path)
    async with (
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection,
        open_database(settings) as database,
    ):
        (name,) = await (await connection.execute("SELECT current_database()")).fetchone() or ("",)
        alter = psycopg.sql.SQL("ALTER DATABASE {} SET deadlock_timeout TO '200ms'")
        await connection.execute(alter.format(psycopg.sql.Identifier(name)))
        stage = Stage(Scheduling(database, settings))
        await stage.prepare()
        yield Theatre(stage, database_url, settings)
