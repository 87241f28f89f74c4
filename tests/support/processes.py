"""Schedulers as real processes on one database, to be killed at any point."""

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

FEWEST_KILLS, FEWEST_EXECUTIONS = 5, 41


def query(url: str, statement: str, *values: object) -> list[DictRow]:
    """Run a statement by hand."""
    with psycopg.connect(url, row_factory=dict_row, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for what must come."""
    patience = monotonic() + seconds
    while not condition():
        assert monotonic() < patience, "it never came"
        sleep(0.02)


class Fleet:
    """Schedulers as processes."""

    def __init__(self, shell: Shell, url: str, *options: str, **variables: str) -> None:
        self.shell, self.url = shell, url
        self.options, self.variables = options, variables
        self.running: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        """Start one more."""
        process = self.shell.start(
            "run",
            *self.options,
            TENANTCRON_LEASE="5s",
            TENANTCRON_LOG_LEVEL="error",
            PYTHONPATH=str(self.shell.folder),
            **self.variables,
        )
        self.running.append(process)
        return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End one as a crash does."""
        self.running.remove(process)
        process.kill()
        process.communicate()

    def is_up(self, process: subprocess.Popen[str]) -> bool:
        """Whether it has reported itself."""
        assert process.poll() is None, process.communicate()
        pid = f"%:{process.pid}:%"
        return bool(query(self.url, "SELECT 1 FROM tenantcron.worker WHERE id LIKE %s", pid))

    def kill_at_random(self, random: Random, sagas: Sequence[str], seconds: float) -> "Chaos":
        """Make schedules due and kill schedulers, both at random, for that long."""
        chaos = Chaos()
        end, next_kill = monotonic() + seconds, monotonic() + 0.5
        # On a busy machine it takes longer until enough has happened.
        while monotonic() < end or not chaos.is_enough:
            made = make_due(self.url, random.choice(sagas))
            chaos.expected += [made] if made else []
            sleep(random.uniform(0.0, 0.02))
            if monotonic() > next_kill:
                self.kill(random.choice(self.running))
                self.start()
                chaos.kills += 1
                next_kill = monotonic() + random.uniform(0.3, 2.0)
        return chaos

    def close(self) -> None:
        """Kill those that are left."""
        for process in self.running:
            process.kill()
            process.communicate()


@dataclass(slots=True)
class Chaos:
    """What was due meanwhile, and how often somebody was killed."""

    expected: list[tuple[UUID, datetime]] = field(default_factory=list)
    kills: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether it shows something."""
        return self.kills >= FEWEST_KILLS and len(self.expected) >= FEWEST_EXECUTIONS


def make_due(url: str, saga: str) -> tuple[UUID, datetime] | None:
    """Let the schedule be due now; None if it still is, or has no cursor yet."""
    rows = query(
        url,
        "UPDATE tenantcron.schedule_cursor SET next_run_at = date_trunc('milliseconds', now())"
        " WHERE schedule_name = %s AND next_run_at > now() RETURNING schedule_id, next_run_at",
        saga,
    )
    return (rows[0]["schedule_id"], rows[0]["next_run_at"]) if rows else None


def executions(url: str) -> list[DictRow]:
    """Return all executions."""
    return query(url, "SELECT * FROM tenantcron.execution ORDER BY scheduled_for")


def all_ended(url: str) -> bool:
    """Whether nothing runs, waits or is due."""
    return not query(
        url,
        "SELECT 1 FROM tenantcron.execution WHERE state IN ('PENDING', 'RUNNING', 'FAILED')"
        " UNION ALL SELECT 1 FROM tenantcron.schedule_cursor WHERE next_run_at <= now()",
    )
