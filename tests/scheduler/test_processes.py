"""Real processes that are killed at any point: nothing is lost or duplicated."""

import signal
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from support.fleet import Shell, manifest
from support.patience import PATIENCE
from support.processes import Fleet, all_ended, executions, make_due, query, until

# Handlers record the start and end of each call in separate transactions, which survive a kill.
HANDLERS = '''
"""Handlers that say that they were called."""
import asyncio, os
import psycopg
from tenantcron.scheduler.replica import polling_loops
from tenantcron.targets.python.registry import saga

# No notification is sent when a test makes a cursor due. Short sleeps mean more kills.
polling_loops.LONGEST_SLEEP = 0.05

async def note(execution, what):
    url = os.environ["TENANTCRON_DATABASE_URL"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            "INSERT INTO public.called VALUES (%s, %s, %s, %s)",
            (execution.id, execution.attempt, what, os.getpid()),
        )

async def work(execution, seconds):
    await note(execution, "began")
    await asyncio.sleep(seconds)
    await note(execution, "ended")

async def quick(execution):
    await work(execution, 0.05)

async def slow(execution):
    await work(execution, 1.5)

@saga("stuck")
async def stuck(execution):
    await work(execution, 3600 if execution.attempt == 1 else 0)

for number in range(6):
    saga(f"quick{number}")(quick)
    saga(f"slow{number}")(slow)
'''
# A success that was recorded before its handler ended.
SUCCEEDED_TOO_EARLY = (
    "SELECT * FROM tenantcron.execution AS e WHERE state = 'SUCCEEDED' AND NOT EXISTS ("
    "SELECT FROM public.called AS c WHERE c.execution_id = e.id"
    " AND c.attempt = e.attempt AND c.what = 'ended' AND c.at <= e.finished_at)"
)
SECONDS = 14.0
SAGAS = [f"{kind}{number}" for kind in ("quick", "slow") for number in range(6)]


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """A tenant with handlers, whose schedules the test makes due."""
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    common = 'cron: "0 0 1 1 *", overlap: allow, start_within: 1h'
    retry = "retry: {max_attempts: 10, backoff: 1s, max_backoff: 1s}"
    sagas = dict.fromkeys([*SAGAS, "stuck"], f"{common}, {retry}")
    (tmp_path / "acme.yaml").write_text(manifest("acme", sagas), encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    query(
        database_url,
        "CREATE TABLE public.called (execution_id uuid, attempt int, what text, pid int,"
        " at timestamptz DEFAULT clock_timestamp())",
    )
    query(database_url, "UPDATE tenantcron.limits SET operator = 100, operator_per_tenant = 100")
    fleet = Fleet(shell, database_url, "--handlers", "work")
    try:
        yield fleet
    finally:
        fleet.close()


def test_every_occurrence_succeeds_once_while_processes_are_killed_at_random(
    fleet: Fleet,
) -> None:
    url, random = fleet.url, Random(7)  # noqa: S311 -- chance for a test
    fleet.start()
    fleet.start()
    until(lambda: all(fleet.is_up(process) for process in fleet.running))
    chaos = fleet.kill_at_random(random, SAGAS, SECONDS)
    until(lambda: all_ended(url))

    rows = executions(url)
    found = Counter((row["schedule_id"], row["scheduled_for"]) for row in rows)
    assert set(found.values()) == {1}
    assert set(chaos.expected) == set(found)
    assert Counter(row["state"] for row in rows) == {"SUCCEEDED": len(chaos.expected)}
    called = Counter(
        (row["execution_id"], row["attempt"])
        for row in query(url, "SELECT * FROM public.called WHERE what = 'began'")
    )
    # An attempt is one call, even if its process was killed.
    assert set(called.values()) == {1}
    assert {row["id"] for row in rows} == {execution_id for execution_id, _ in called}
    assert query(url, SUCCEEDED_TOO_EARLY) == []


def test_the_first_signal_lets_running_executions_end(fleet: Fleet) -> None:
    process = fleet.start()
    until(lambda: fleet.is_up(process))
    until(lambda: make_due(fleet.url, "slow0") is not None)
    until(lambda: bool(query(fleet.url, "SELECT 1 FROM public.called")))

    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)

    assert (process.returncode, errors) == (0, "")
    assert [row["state"] for row in executions(fleet.url)] == ["SUCCEEDED"]
    assert query(fleet.url, "SELECT 1 FROM tenantcron.worker") == []


def test_the_second_signal_ends_the_process_at_once_and_another_takes_over(fleet: Fleet) -> None:
    process = fleet.start()
    until(lambda: fleet.is_up(process))
    until(lambda: make_due(fleet.url, "stuck") is not None)
    until(lambda: bool(query(fleet.url, "SELECT 1 FROM public.called")))

    process.send_signal(signal.SIGTERM)
    # Two signals that arrive before the first is handled count as one.
    until(lambda: bool(query(fleet.url, "SELECT 1 FROM tenantcron.worker WHERE draining")))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)

    assert process.returncode == 130
    assert [row["state"] for row in executions(fleet.url)] == ["RUNNING"]
    fleet.start()
    until(lambda: [row["state"] for row in executions(fleet.url)] == ["SUCCEEDED"])
    (row,) = executions(fleet.url)
    assert row["attempt"] == 2
    assert row["finished_at"] - row["scheduled_for"] > timedelta(seconds=5)
