"""Real processes on one database: killed at any point, nothing is lost and nothing doubled."""

import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from time import monotonic, sleep
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row
from support.fleet import Shell, manifest

# Each call is noted in a transaction of its own, before and after: what a killed one began stays.
HANDLERS = '''
"""Handlers that say that they were called."""
import asyncio, os
import psycopg
from tenantcron.scheduler import run
from tenantcron.targets.registry import saga

# Nobody rings when a cursor is moved by hand; and the more often it fires, the more is killed.
run.LONGEST_SLEEP = 0.05

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

for number in range(6):
    saga(f"quick{number}")(quick)
    saga(f"slow{number}")(slow)
'''
# An attempt that is on record as a success before its handler came to its end.
SUCCEEDED_TOO_EARLY = (
    "SELECT * FROM tenantcron.execution_attempt AS a WHERE outcome = 'SUCCEEDED' AND NOT EXISTS ("
    "SELECT FROM public.called AS c WHERE c.execution_id = a.execution_id"
    " AND c.attempt = a.attempt AND c.what = 'ended' AND c.at <= a.finished_at)"
)
SECONDS = 14.0
PATIENCE = 30.0
FEWEST_KILLS, FEWEST_EXECUTIONS = 5, 41
SAGAS = [f"{kind}{number}" for kind in ("quick", "slow") for number in range(6)]


def query(url: str, statement: str, *values: object) -> list[DictRow]:
    with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    patience = monotonic() + seconds
    while not condition():
        assert monotonic() < patience, "it never came"
        sleep(0.02)


class Fleet:
    """Schedulers as processes."""

    def __init__(self, shell: Shell, url: str) -> None:
        self.shell, self.url = shell, url
        self.running: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        process = self.shell.start(
            "run",
            "--handlers",
            "work",
            TENANTCRON_LEASE="5s",
            TENANTCRON_LOG_LEVEL="error",
            PYTHONPATH=str(self.shell.folder),
        )
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        self.running.remove(process)
        process.kill()
        process.communicate()

    def lost_work_runs(self, process: subprocess.Popen[str]) -> bool:
        """Whether something that a process has lost is at work elsewhere."""
        statement = (
            "SELECT 1 FROM tenantcron.execution AS e JOIN tenantcron.execution_attempt AS a"
            " ON a.execution_id = e.id AND a.scheduled_for = e.scheduled_for"
            " WHERE e.state = 'RUNNING' AND a.outcome = 'LOST' AND a.worker_id LIKE %s"
        )
        return bool(query(self.url, statement, f"%:{process.pid}:%"))

    def is_up(self, process: subprocess.Popen[str]) -> bool:
        assert process.poll() is None, process.communicate()
        pid = f"%:{process.pid}:%"
        return bool(query(self.url, "SELECT 1 FROM tenantcron.worker WHERE id LIKE %s", pid))


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """A tenant with schedules that are due only by hand, and handlers."""
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    common = 'cron: "0 0 1 1 *", overlap: allow, start_within: 1h'
    retry = "retry: {max_attempts: 10, backoff: 1s, max_backoff: 1s}"
    sagas = dict.fromkeys(SAGAS, f"{common}, {retry}")
    (tmp_path / "acme.yaml").write_text(manifest("acme", sagas), encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    query(
        database_url,
        "CREATE TABLE public.called (execution_id uuid, attempt int, what text, pid int,"
        " at timestamptz DEFAULT clock_timestamp())",
    )
    query(database_url, "UPDATE tenantcron.limits SET operator = 100, operator_per_tenant = 100")
    fleet = Fleet(shell, database_url)
    try:
        yield fleet
    finally:
        for process in fleet.running:
            process.kill()
            process.communicate()


def make_due(url: str, saga: str) -> tuple[UUID, datetime] | None:
    """Let the schedule be due now; None if it still is, or has no cursor yet."""
    rows = query(
        url,
        "UPDATE tenantcron.schedule_cursor SET next_run_at = date_trunc('milliseconds', now())"
        " WHERE schedule_name = %s AND next_run_at > now() RETURNING schedule_id, next_run_at",
        saga,
    )
    return (rows[0]["schedule_id"], rows[0]["next_run_at"]) if rows else None


def restore(url: str, saga: str) -> None:
    """Put a cursor back by one occurrence, as an old backup of its table would."""
    query(
        url,
        "UPDATE tenantcron.schedule_cursor SET next_run_at = last_run_at, last_run_at = NULL"
        " WHERE schedule_name = %s AND next_run_at > now() AND last_run_at IS NOT NULL",
        saga,
    )


def executions(url: str) -> list[DictRow]:
    return query(url, "SELECT * FROM tenantcron.execution ORDER BY scheduled_for")


class Stalled:
    """A process that stands still until others have taken over what it ran, and then goes on."""

    def __init__(self, fleet: Fleet, process: subprocess.Popen[str], since: float) -> None:
        self.fleet, self.process, self.since = fleet, process, since
        self.stands = self.is_over = False

    def look(self) -> None:
        """Stop it or let it go on, if it is time for that."""
        if self.is_over or monotonic() < self.since:
            return
        if not self.stands:
            if self.fleet.is_up(self.process):
                self.process.send_signal(signal.SIGSTOP)
                self.stands = True
        elif self.fleet.lost_work_runs(self.process) or monotonic() > self.since + PATIENCE:
            self.process.send_signal(signal.SIGCONT)
            self.is_over = True


def all_ended(url: str) -> bool:
    return not query(
        url,
        "SELECT 1 FROM tenantcron.execution WHERE state IN ('PENDING', 'RUNNING', 'FAILED')"
        " UNION ALL SELECT 1 FROM tenantcron.schedule_cursor WHERE next_run_at <= now()",
    )


def test_killed_at_random_again_and_again_every_occurrence_has_one_execution_that_succeeds(
    fleet: Fleet,
) -> None:
    url, random = fleet.url, Random(7)  # noqa: S311 -- chance for a test
    fleet.start()
    fleet.start()
    until(lambda: all(fleet.is_up(process) for process in fleet.running))
    expected: list[tuple[UUID, datetime]] = []
    end, kills = monotonic() + SECONDS, 0
    next_kill = monotonic() + 0.5
    stalled = Stalled(fleet, fleet.start(), since=monotonic() + 2.0)
    # On a busy machine it takes longer until enough has happened.
    while (
        monotonic() < end
        or kills < FEWEST_KILLS
        or len(expected) < FEWEST_EXECUTIONS
        or not stalled.is_over
    ):
        made = make_due(url, random.choice(SAGAS))
        expected += [made] if made else []
        if random.random() < 0.1:
            restore(url, random.choice(SAGAS))
        sleep(random.uniform(0.0, 0.02))
        stalled.look()
        if monotonic() > next_kill:
            fleet.kill(random.choice([one for one in fleet.running if one is not stalled.process]))
            fleet.start()
            kills += 1
            next_kill = monotonic() + random.uniform(0.3, 2.0)
    until(lambda: all_ended(url), seconds=40)

    rows = executions(url)
    found = Counter((row["schedule_id"], row["scheduled_for"]) for row in rows)
    assert set(found.values()) == {1}
    assert set(expected) == set(found)
    assert Counter(row["state"] for row in rows) == {"SUCCEEDED": len(expected)}
    called = Counter(
        (row["execution_id"], row["attempt"])
        for row in query(url, "SELECT * FROM public.called WHERE what = 'began'")
    )
    # An attempt is one call, whoever was killed in it.
    assert set(called.values()) == {1}
    assert {row["id"] for row in rows} == {execution_id for execution_id, _ in called}
    assert query(url, SUCCEEDED_TOO_EARLY) == []


def test_the_first_signal_lets_what_runs_end(fleet: Fleet) -> None:
    process = fleet.start()
    until(lambda: fleet.is_up(process))
    until(lambda: make_due(fleet.url, "slow0") is not None)
    until(lambda: bool(query(fleet.url, "SELECT 1 FROM public.called")))

    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)

    assert (process.returncode, errors) == (0, "")
    assert [row["state"] for row in executions(fleet.url)] == ["SUCCEEDED"]
    assert query(fleet.url, "SELECT 1 FROM tenantcron.worker") == []


def test_the_second_signal_ends_it_at_once_and_another_takes_over(fleet: Fleet) -> None:
    process = fleet.start()
    until(lambda: fleet.is_up(process))
    until(lambda: make_due(fleet.url, "slow0") is not None)
    until(lambda: bool(query(fleet.url, "SELECT 1 FROM public.called")))

    process.send_signal(signal.SIGTERM)
    # The first one was taken note of when nothing handles the signal but an end.
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)

    assert process.returncode == 130
    assert [row["state"] for row in executions(fleet.url)] == ["RUNNING"]
    fleet.start()
    until(lambda: [row["state"] for row in executions(fleet.url)] == ["SUCCEEDED"])
    (row,) = executions(fleet.url)
    assert row["attempt"] == 2
    assert row["finished_at"] - row["scheduled_for"] > timedelta(seconds=5)
