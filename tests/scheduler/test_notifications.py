"""Notifications are received while the connection is open, and a lost connection is replaced."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from support.cursors import run
from support.fleet import Fleet, numbered
from support.patience import PATIENCE
from support.sessions import until_not_found

from tenantcron.core.names import TenantId
from tenantcron.scheduler.replica.notifications import LONGEST_WAIT, Backoff, Hints, listen
from tenantcron.store.connection.database_urls import DatabaseTarget
from tenantcron.store.connection.engine import Database

SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
)


@dataclass
class Recorder:
    """Collects notifications, in order."""

    heard: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    waits: list[float] = field(default_factory=list)

    @property
    def hints(self) -> Hints:
        put = self.heard.put_nowait
        return Hints(
            on_schedules=lambda tenant: put(("schedules", tenant)),
            on_work=lambda payload: put(("work", payload)),
            on_listening=lambda: put(("listening", "")),
            on_lost=lambda why: put(("lost", why)),
        )

    async def next(self) -> tuple[str, str]:
        async with asyncio.timeout(PATIENCE):
            return await self.heard.get()

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        # A wait that never yields would keep the test from ending.
        await asyncio.sleep(0)


@asynccontextmanager
async def listening(target: DatabaseTarget) -> AsyncIterator[Recorder]:
    """Listen for the duration of the block."""
    ears = Recorder()
    task = asyncio.create_task(listen(target, ears.hints, Random(1), ears.wait))  # noqa: S311 -- no secret
    try:
        yield ears
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_apply_and_new_work_are_notified(
    tmp_path: Path, database: Database, database_url: str
) -> None:
    fleet = Fleet(database, tmp_path)
    async with listening(database.target) as ears:
        assert await ears.next() == ("listening", "")
        fleet.write("acme", numbered(1))
        await fleet.apply()
        assert await ears.next() == ("schedules", "acme")
        run(database_url, "NOTIFY tenantcron_work, 'now'")
        assert await ears.next() == ("work", "now")


async def test_a_lost_connection_is_reported_and_replaced(
    database: Database, database_url: str
) -> None:
    async with listening(database.target) as ears:
        assert await ears.next() == ("listening", "")
        for round_ in range(2):
            run(database_url, f"SELECT pg_terminate_backend(pid) FROM ({SESSIONS}) AS s")  # noqa: S608 -- a constant
            kind, why = await ears.next()
            assert kind == "lost"
            assert "terminat" in why or "closed the connection" in why
            assert await ears.next() == ("listening", "")
            run(database_url, "NOTIFY tenantcron_schedules, 'acme'")
            assert await ears.next() == ("schedules", TenantId("acme"))
            assert len(ears.waits) == round_ + 1
    assert max(ears.waits) <= 0.5, "a connection that held begins with the shortest wait"


async def test_cancelling_closes_the_connection(database: Database, database_url: str) -> None:
    async with listening(database.target) as ears:
        await ears.next()
        assert len(run(database_url, SESSIONS)) == 1

    await until_not_found(database_url, SESSIONS)


async def test_an_unavailable_server_is_retried_with_increasing_waits() -> None:
    away = DatabaseTarget({"host": "/nowhere", "user": "u", "password": "secret", "dbname": "d"})
    async with listening(away) as ears:
        reasons = [await ears.next() for _ in range(9)]

    assert {kind for kind, _ in reasons} == {"lost"}
    assert not any("secret" in why for _, why in reasons)
    assert ears.waits[6] > ears.waits[0]


def test_waits_double_up_to_the_longest_and_differ_between_replicas() -> None:
    backoff, seen = Backoff(Random(1)), []  # noqa: S311 -- no secret
    for _ in range(10):
        seen.append(backoff.seconds)
        assert backoff.seconds / 2 <= backoff.draw() <= backoff.seconds
        backoff = backoff.longer()

    assert seen[:4] == [0.5, 1.0, 2.0, 4.0]
    assert seen[-1] == LONGEST_WAIT
    assert Backoff(Random(1)).draw() != Backoff(Random(2)).draw()  # noqa: S311 -- no secret
