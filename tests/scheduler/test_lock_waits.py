"""Statements that wait for a lock are logged."""

import asyncio
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from tenantcron.core.wake_signal import WakeSignal
from tenantcron.scheduler.replica.lock_waits import LockWatch
from tenantcron.scheduler.replica.polling_loops import run_loop
from tenantcron.store.connection import deadlines
from tenantcron.store.connection.engine import Database

UPDATE = "UPDATE tenantcron.limits SET operator = 7"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "SLOW_SECONDS", 0.2)


async def first(logs: list[MutableMapping[str, Any]]) -> MutableMapping[str, Any]:
    """Wait for the first line of the log, and return it."""
    while not logs:
        await asyncio.sleep(0.01)
    return logs[0]


async def test_a_lock_wait_is_logged_with_the_blocking_session(
    database: Database, database_url: str
) -> None:
    watched = replace(database, on_slow=LockWatch(database))
    stopping = asyncio.Event()

    async def step() -> float:
        async with watched.transaction() as connection:
            await connection.execute(text(UPDATE))
        stopping.set()
        return 0

    with psycopg.connect(database_url, application_name="psql of an admin") as session:
        pid = session.info.backend_pid
        session.execute("SELECT 'a secret' FROM tenantcron.limits FOR UPDATE")
        with capture_logs() as logs:
            loop = asyncio.create_task(run_loop("claim", step, WakeSignal(), stopping))
            line = await first(logs)
        session.rollback()
    await loop

    assert (line["event"], line["step"]) == ("lock_wait", "claim")
    (blocker,) = line["blocked_by"]
    assert blocker["pid"] == pid
    assert blocker["user"] == "postgres"
    assert blocker["application"] == "psql of an admin"
    assert blocker["state"] == "idle in transaction"
    assert "a secret" not in str(line)


async def test_a_lock_wait_names_the_locked_table(database: Database, database_url: str) -> None:
    watched = replace(database, on_slow=LockWatch(database))

    async def write() -> None:
        async with watched.transaction() as connection:
            await connection.execute(text(UPDATE))

    with psycopg.connect(database_url) as session:
        session.execute("LOCK TABLE tenantcron.limits")
        with capture_logs() as logs:
            writing = asyncio.create_task(write())
            line = await first(logs)
        session.rollback()
    await writing

    assert (line["table"], line["mode"]) == ("limits", "RowExclusiveLock")


async def test_a_slow_statement_is_not_reported_as_a_lock_wait(database: Database) -> None:
    watched = replace(database, on_slow=LockWatch(database))

    with capture_logs() as logs:
        async with watched.transaction() as connection:
            await connection.execute(text("SELECT pg_sleep(1)"))

    assert logs == []
