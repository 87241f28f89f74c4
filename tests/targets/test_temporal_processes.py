"""Temporal targets with schedulers, a worker and a server as processes that are killed."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet import Shell
from support.processes import Fleet, query, until
from support.temporal_server import TemporalDevServer, temporal_server
from support.temporal_work import temporal_work

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "temporal"


@pytest.fixture
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalDevServer]:
    """A real temporal."""
    with temporal_server(tmp_path_factory.mktemp("temporal")) as running:
        yield running


def test_results_failures_cancellations_and_timeouts(
    tmp_path: Path, database_url: str, temporal: TemporalDevServer
) -> None:
    sagas = {"fine": "{}", "wrong": "{fails: final}", "again": "{fails: first}"}
    endless = {"endless": "{waits: true}"}
    with temporal_work(tmp_path, database_url, temporal, sagas | endless) as work:
        fine = work.fire("fine")
        until(lambda: work.state(fine) == "SUCCEEDED")
        (attempt,) = query(database_url, "SELECT * FROM tenantcron.execution_attempt")
        assert attempt["result"] == {"tenant": "acme"}
        wrong = work.fire("wrong")
        until(lambda: work.state(wrong) == "DEAD")
        assert work.starts(wrong) == 1
        again = work.fire("again")
        until(lambda: work.state(again) == "SUCCEEDED")
        assert work.starts(again) == 2
        running = work.fire("endless")
        until(lambda: work.starts(running) == 1)
        cancelled = work.fleet.shell("execution", "cancel", str(running), "--reason", "no")
        assert cancelled.code == 0, cancelled
        until(lambda: work.state(running) == "CANCELLED")
        until(lambda: temporal.status(running) == "CANCELED")


def test_a_timeout_cancels_the_workflow_and_the_retry_is_a_new_run(
    tmp_path: Path, database_url: str, temporal: TemporalDevServer
) -> None:
    sagas = {"slow": "{waits: true}"}
    with temporal_work(tmp_path, database_url, temporal, sagas, timeout="5s") as work:
        slow = work.fire("slow")
        until(lambda: work.starts(slow) == 2)
        assert work.attempts()[0] == ("TIMED_OUT", "timed out after 5s")
        until(lambda: temporal.runs(slow)[0].status == "CANCELED")


@pytest.mark.parametrize("stops_by", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_attempt_attaches_after_the_end_of_a_replica(
    tmp_path: Path, database_url: str, temporal: TemporalDevServer, stops_by: signal.Signals
) -> None:
    sagas = {"report": "{waits: true, result: 12}"}
    with temporal_work(tmp_path, database_url, temporal, sagas) as work:
        (first,) = work.fleet.running
        report = work.fire("report")
        until(lambda: work.starts(report) == 1)
        first.send_signal(stops_by)
        if stops_by is signal.SIGTERM:
            until(lambda: first.poll() is not None)
            assert first.returncode == 0
        else:
            work.fleet.kill(first)
        work.fleet.start()
        # The second attempt runs, and waits for the same workflow.
        statement = "SELECT attempt FROM tenantcron.execution WHERE state = 'RUNNING'"
        until(lambda: [row["attempt"] for row in query(database_url, statement)] == [2])
        temporal.signal(report, "open")
        until(lambda: work.state(report) == "SUCCEEDED")
        outcome = "LOST" if stops_by is signal.SIGKILL else "INTERRUPTED"
        assert [ended for ended, _ in work.attempts()] == [outcome, "SUCCEEDED"]
        assert work.starts(report) == 1
        assert [run.status for run in temporal.runs(report)] == ["COMPLETED"]


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "pending"])
def test_a_cancellation_while_no_replica_waits_cancels_the_workflow(
    tmp_path: Path, database_url: str, temporal: TemporalDevServer, *, is_running: bool
) -> None:
    with temporal_work(tmp_path, database_url, temporal, {"report": "{waits: true}"}) as work:
        (first,) = work.fleet.running
        report = work.fire("report")
        until(lambda: work.starts(report) == 1)
        if is_running:
            work.fleet.kill(first)
        else:
            # A shutdown leaves the workflow to the next attempt.
            first.send_signal(signal.SIGTERM)
            until(lambda: first.poll() is not None)
        assert work.state(report) == ("RUNNING" if is_running else "RETRYING")
        cancelled = work.fleet.shell("execution", "cancel", str(report), "--reason", "no")
        assert cancelled.code == 0, cancelled
        assert temporal.status(report) == "RUNNING"
        work.fleet.start()
        until(lambda: work.state(report) == "CANCELLED")
        until(lambda: temporal.status(report) == "CANCELED")
        assert work.starts(report) == 1


def test_a_killed_server_delays_starts_and_ends_no_attempt(
    tmp_path: Path, database_url: str, temporal: TemporalDevServer
) -> None:
    sagas = {"running": "{waits: true}", "waiting": "{}"}
    with temporal_work(tmp_path, database_url, temporal, sagas) as work:
        running = work.fire("running")
        until(lambda: work.starts(running) == 1)
        # The server repeats an activity whose end it has not stored.
        until(lambda: temporal.has_done_activity(running))
        temporal.kill()
        waiting = work.fire("waiting")
        until(lambda: work.state(waiting) == "RETRYING")
        temporal.start()
        temporal.signal(running, "open")
        until(lambda: work.state(running) == work.state(waiting) == "SUCCEEDED")
        assert (work.starts(running), work.starts(waiting)) == (1, 1)
        of_running = query(
            database_url,
            "SELECT attempt FROM tenantcron.execution WHERE id = %s",
            running,
        )
        assert of_running == [{"attempt": 1}]
        failed = [error for outcome, error in work.attempts() if outcome == "FAILED"]
        assert {"the Temporal server cannot be reached"} == set(failed)


def test_the_example_runs(tmp_path: Path, database_url: str, temporal: TemporalDevServer) -> None:
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder)
    settings = folder / "tenantcron.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(re.sub("127.0.0.1:7233", temporal.address, text), encoding="utf-8")
    shell = Shell(folder, database_url)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    worker = subprocess.Popen(
        [sys.executable, "billing.py", temporal.address],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    fleet = Fleet(shell, database_url)
    try:
        scheduler = fleet.start()
        until(lambda: fleet.is_up(scheduler))
        triggered = shell("schedule", "trigger", "acme/generate_invoices", "--wait")
        assert triggered.code == 0, triggered
        assert '{"invoices": 2}' in triggered.out.replace('":2', '": 2'), triggered
        assert worker.stdout is not None
        assert worker.stdout.readline().startswith("acme: invoice for ada, key sched:")
    finally:
        fleet.close()
        worker.kill()
        worker.communicate()
