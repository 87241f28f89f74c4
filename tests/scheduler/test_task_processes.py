"""Tasks and real processes that are killed: every acknowledged task has exactly one execution."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.fleet import Shell
from support.patience import PATIENCE
from support.processes import Fleet, query, until

HANDLERS = """
import os
import psycopg
from tenantcron.scheduler.replica import polling_loops
from tenantcron.targets.python.registry import saga

polling_loops.LONGEST_SLEEP = 0.05

@saga("note")
async def note(execution):
    url = os.environ["TENANTCRON_DATABASE_URL"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            "INSERT INTO public.called VALUES (%s, %s)", (execution.id, execution.attempt)
        )
"""
# It prints the id of each task after its commit. Half of the tasks are due at once.
SUBMITTER = """
import sys
from datetime import timedelta
import psycopg
import tenantcron

with psycopg.connect(sys.argv[1]) as connection:
    for number in range(100_000):
        delay = timedelta(seconds=number % 2 / 5)
        task = tenantcron.submit(connection, tenant="acme", saga="note", delay=delay)
        connection.commit()
        print(task.id, flush=True)
        # About as fast as the schedulers work.
        connection.execute("SELECT pg_sleep(0.02)")
"""
GATE = 4711
# A statement that fires tasks has marked them when it inserts the first execution.
_HOLD = f"""
CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({GATE});
    RETURN NEW;
END $$;
CREATE TRIGGER hold BEFORE INSERT ON tenantcron.execution_live
    FOR EACH ROW EXECUTE FUNCTION public.hold();
"""
_HELD = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    " AND wait_event_type = 'Lock' AND wait_event = 'advisory'"
    " AND query LIKE '%%UPDATE tenantcron.task%%'"
)
_UNFINISHED = (
    "SELECT 1 FROM tenantcron.task WHERE fired_at IS NULL UNION ALL"
    " SELECT 1 FROM tenantcron.execution WHERE finished_at IS NULL"
)
_CALLED = "SELECT id FROM public.called"
_EXECUTIONS = "SELECT id, state FROM tenantcron.execution"


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    (tmp_path / "submitter.py").write_text(SUBMITTER, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("tenant", "create", "acme", "--max-concurrent", "50").code == 0
    query(database_url, "CREATE TABLE public.called (id uuid, attempt int)")
    fleet = Fleet(shell, database_url, "--handlers", "work")
    try:
        yield fleet
    finally:
        fleet.close()


def check(fleet: Fleet, acknowledged: set[str]) -> Counter[str]:
    """Check that each task has one execution, which succeeded; return the calls of each."""
    rows = query(fleet.url, _EXECUTIONS)
    tasks = {str(row["id"]) for row in query(fleet.url, "SELECT id FROM tenantcron.task")}
    assert acknowledged <= tasks
    assert Counter(str(row["id"]) for row in rows) == Counter(tasks)
    assert {row["state"] for row in rows} == {"SUCCEEDED"}
    assert fleet.shell("audit", "--tenant", "acme").code == 0
    return Counter(str(row["id"]) for row in query(fleet.url, _CALLED))


def test_a_scheduler_that_is_killed_while_it_fires_fires_nothing_twice(fleet: Fleet) -> None:
    url = fleet.url
    submit = "SELECT id FROM tenantcron.submit_tasks('acme', %s)"
    batch = "[" + ", ".join(['{"saga": "note", "delay": "1 s"}'] * 30) + "]"
    query(url, _HOLD)
    with psycopg.connect(url, autocommit=True) as gate:
        gate.execute("SELECT pg_advisory_lock(%s)", (GATE,))
        acknowledged = {str(row["id"]) for row in query(url, submit, batch)}
        first = fleet.start()
        until(lambda: bool(query(url, _HELD)))
        fleet.kill(first)
        # Its statement has marked the tasks, and no process can commit it any more.
        second = fleet.start()
        until(lambda: fleet.is_up(second))
        assert query(url, _EXECUTIONS) == []
        assert len(query(url, "SELECT 1 FROM tenantcron.task WHERE fired_at IS NULL")) == 30
    until(lambda: not query(url, _UNFINISHED))

    assert check(fleet, acknowledged) == Counter(acknowledged)


def test_every_acknowledged_task_runs_if_submitter_and_schedulers_are_killed(fleet: Fleet) -> None:
    url = fleet.url
    fleet.start()
    fleet.start()
    until(lambda: all(fleet.is_up(process) for process in fleet.running))
    command = [sys.executable, str(fleet.shell.folder / "submitter.py"), url]
    submitter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        for calls in (25, 50, 75):
            # At this moment some tasks wait, and others run.
            until(lambda least=calls: len(query(url, _CALLED)) >= least)  # type: ignore[misc] # bound
            fleet.kill(fleet.running[0])
            fleet.start()
    finally:
        submitter.kill()
        printed, _ = submitter.communicate(timeout=PATIENCE)
    # The last line may be cut off.
    acknowledged = set(printed.rpartition("\n")[0].splitlines())
    until(lambda: not query(url, _UNFINISHED))

    called = check(fleet, acknowledged)
    assert len(acknowledged) >= 75
    assert called.keys() >= acknowledged
