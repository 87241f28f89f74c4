"""Schedulers as real processes on one database, to be killed at any point."""

import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from time import monotonic, sleep
from uuid import UUID

import psycopg
from psycopg.rows import DictRow, dict_row
from support.fleet import Shell
from support.patience import PATIENCE
from support.reasons import in_words

FEWEST_KILLS, FEWEST_EXECUTIONS = 5, 41
# Maximum seconds that a process is stopped, and until it is stopped even if nothing runs in it.
LONGEST_STOP, LATEST_STOP = 30.0, 5.0


def query(url: str, statement: str, *values: object) -> list[DictRow]:
    """Run a statement directly."""
    with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return [*map(in_words, cursor)] if cursor.description else []


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that must become true."""
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline, "the condition never became true"
        sleep(0.02)


class Fleet:
    """Schedulers as processes."""

    def __init__(self, shell: Shell, url: str, *options: str, **variables: str) -> None:
        self.shell, self.url = shell, url
        self.options, self.variables = options, variables
        self.running: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        """Start another one."""
        process = self.shell.start(
            "run",
            *self.options,
            **{
                "TENANTCRON_LEASE": "5s",
                "TENANTCRON_LOG_LEVEL": "error",
                # Workers are killed all the time here, and their executions are not to blame.
                "TENANTCRON_KILLS_ALLOWED": "100",
                "PYTHONPATH": str(self.shell.folder),
                **self.variables,
            },
        )
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End one as in a crash."""
        self.running.remove(process)
        process.kill()
        process.communicate()

    def is_up(self, process: subprocess.Popen[str]) -> bool:
        """Whether it has sent a heartbeat."""
        assert process.poll() is None, process.communicate()
        pid = f"%:{process.pid}:%"
        return bool(query(self.url, "SELECT 1 FROM tenantcron.worker WHERE id LIKE %s", pid))

    def kill_at_random(self, random: Random, sagas: Sequence[str], seconds: float) -> "Chaos":
        """Make schedules due, kill schedulers and set cursors back, all at random, for that long.

        One scheduler is stopped meanwhile, for longer than its leases.
        """
        chaos, stalled = Chaos(), Stalled(self, self.start(), since=monotonic() + 2.0)
        end, next_kill = monotonic() + seconds, monotonic() + 0.5
        # On a busy machine it takes longer until enough has happened.
        while monotonic() < end or not chaos.is_enough or not stalled.is_over:
            made = make_due(self.url, random.choice(sagas))
            chaos.expected += [made] if made else []
            if random.random() < 0.1:
                restore(self.url, random.choice(sagas))
            sleep(random.uniform(0.0, 0.02))
            stalled.look()
            if monotonic() > next_kill:
                others = [process for process in self.running if process is not stalled.process]
                self.kill(random.choice(others))
                self.start()
                chaos.kills += 1
                next_kill = monotonic() + random.uniform(0.3, 2.0)
        return chaos

    def is_at_work(self, process: subprocess.Popen[str]) -> bool:
        """Whether a process has recently started a longer execution."""
        statement = (
            "SELECT 1 FROM tenantcron.execution WHERE state = 'RUNNING' AND worker_id LIKE %s"
            " AND started_at BETWEEN now() - interval '1 second' AND now() - interval '0.1 second'"
        )
        return bool(query(self.url, statement, f"%:{process.pid}:%"))

    def is_blocking_others(self) -> bool:
        """Whether a session is stopped inside a transaction."""
        sleep(0.3)
        statement = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND state = 'idle in transaction' AND state_change < now() - interval '0.2 second'"
        )
        return bool(query(self.url, statement))

    def lost_work_runs(self, process: subprocess.Popen[str]) -> bool:
        """Whether an execution that a process has lost is running elsewhere."""
        statement = (
            "SELECT 1 FROM tenantcron.execution AS e JOIN tenantcron.execution_attempt AS a"
            " ON a.execution_id = e.id AND a.scheduled_for = e.scheduled_for"
            " WHERE e.state = 'RUNNING' AND a.outcome = 'LOST' AND a.worker_id LIKE %s"
        )
        return bool(query(self.url, statement, f"%:{process.pid}:%"))

    def close(self) -> None:
        """Kill the remaining ones."""
        for process in self.running:
            process.kill()
            process.communicate()


class Stalled:
    """A process that is stopped until others have taken over its executions, and then continues."""

    def __init__(self, fleet: Fleet, process: subprocess.Popen[str], since: float) -> None:
        self.fleet, self.process, self.since = fleet, process, since
        self.is_stopped = self.is_over = False

    def look(self) -> None:
        """Stop or continue it, if it is time for that."""
        if self.is_over or monotonic() < self.since:
            return
        if not self.is_stopped:
            is_late = monotonic() > self.since + LATEST_STOP
            if self.fleet.is_at_work(self.process) or (is_late and self.fleet.is_up(self.process)):
                self.stop()
        elif self.fleet.lost_work_runs(self.process) or monotonic() > self.since + LONGEST_STOP:
            self.process.send_signal(signal.SIGCONT)
            self.is_over = True

    def stop(self) -> None:
        """Stop it, unless that was within a transaction that blocks all others."""
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = not self.fleet.is_blocking_others()
        if not self.is_stopped:
            self.process.send_signal(signal.SIGCONT)


@dataclass(slots=True)
class Chaos:
    """The occurrences that were due, and the number of kills."""

    expected: list[tuple[UUID, datetime]] = field(default_factory=list)
    kills: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether the run is meaningful."""
        return self.kills >= FEWEST_KILLS and len(self.expected) >= FEWEST_EXECUTIONS


def make_due(url: str, saga: str) -> tuple[UUID, datetime] | None:
    """Make the schedule due now; None if it still is, or has no cursor yet."""
    rows = query(
        url,
        "UPDATE tenantcron.schedule_cursor SET next_run_at = date_trunc('milliseconds', now())"
        " WHERE schedule_name = %s AND next_run_at > now() RETURNING schedule_id, next_run_at",
        saga,
    )
    return (rows[0]["schedule_id"], rows[0]["next_run_at"]) if rows else None


def restore(url: str, saga: str) -> None:
    """Set a cursor back by one occurrence, as by an old backup of its table."""
    query(
        url,
        "UPDATE tenantcron.schedule_cursor SET next_run_at = last_run_at, last_run_at = NULL"
        " WHERE schedule_name = %s AND next_run_at > now() AND last_run_at IS NOT NULL",
        saga,
    )


def executions(url: str) -> list[DictRow]:
    """Return all executions."""
    return query(url, "SELECT * FROM tenantcron.execution ORDER BY scheduled_for")


def all_ended(url: str) -> bool:
    """Whether no execution is running or pending, and none is due."""
    return not query(
        url,
        "SELECT 1 FROM tenantcron.execution_live"
        " UNION ALL SELECT 1 FROM tenantcron.schedule_cursor WHERE next_run_at <= now()",
    )
