"""A scheduler as a real process, with misbehaving handlers, and its log."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.rows import DictRow
from support.fleet import Called, Shell, manifest
from support.patience import PATIENCE
from support.processes import Fleet, make_due, query, until

PREAMBLE = """
import asyncio, logging, os, signal, sys, threading, time
from pathlib import Path
import structlog
from sqlalchemy import text
from tenantcron import Fail, Retry, TokenError, saga
from tenantcron.scheduler.replica import polling_loops

# No notification is sent when a test makes a cursor due.
polling_loops.LONGEST_SLEEP = 0.05
"""
Line = dict[str, object]


@dataclass
class Scheduler:
    """A scheduler in a folder, on a database, with one tenant and a schedule for each saga."""

    folder: Path
    url: str
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    seen: str = ""

    def start(self) -> subprocess.Popen[str]:
        """Start it, and wait for its first heartbeat."""
        fleet = Fleet(Shell(self.folder, self.url), self.url)
        process = self.process = fleet.shell.start(
            "run",
            *("--handlers", "work"),
            PYTHONPATH=str(self.folder),
            **{"TENANTCRON_LEASE": "5s", "TENANTCRON_LOG_LEVEL": "info"} | self.variables,
        )
        until(lambda: fleet.is_up(process))
        return process

    def refused(self, **variables: str) -> Called:
        """Start it where it cannot run, and return its result."""
        process = Shell(self.folder, self.url).start(
            "run", "--handlers", "work", PYTHONPATH=str(self.folder), **variables
        )
        out, err = process.communicate(timeout=PATIENCE)
        return Called(process.returncode, out, err)

    def make_due(self, *sagas: str) -> None:
        """Make schedules due now."""
        for saga in sagas:
            until(lambda saga=saga: make_due(self.url, saga) is not None)  # type: ignore[misc] # bound at once

    def until_noted(self, name: str) -> Path:
        """Wait until a handler has created a file."""
        file = self.folder / name
        until(file.exists)
        return file

    def note(self, name: str) -> None:
        """Create a file that a handler waits for."""
        (self.folder / name).touch()

    def execution(self, saga: str) -> DictRow:
        """Return the only execution of a saga."""
        (row,) = self.executions(saga)
        return row

    def executions(self, saga: str) -> list[DictRow]:
        """Return the executions of a saga."""
        return query(self.url, "SELECT * FROM tenantcron.execution WHERE saga_name = %s", saga)

    def attempts(self, saga: str) -> list[DictRow]:
        """Return the recorded attempts of a saga."""
        return query(
            self.url,
            "SELECT a.* FROM tenantcron.execution_attempt AS a JOIN tenantcron.execution AS e"
            " ON e.id = a.execution_id WHERE e.saga_name = %s ORDER BY a.attempt",
            saga,
        )

    def until_state(self, saga: str, *states: str) -> DictRow:
        """Wait until the execution of a saga is in a state, and return it."""
        until(lambda: any(row["state"] in states for row in self.executions(saga)))
        return self.execution(saga)

    def end(self) -> list[Line]:
        """Stop it if it is still running, and return its log."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        return self.ended()

    def ended(self) -> list[Line]:
        """Wait until it has ended by itself, and return its log."""
        assert self.process is not None
        _, self.seen = self.process.communicate(timeout=PATIENCE)
        return [json.loads(line) for line in self.seen.splitlines()]


@contextmanager
def scheduler(
    folder: Path,
    url: str,
    handlers: str,
    sagas: Sequence[str] | Mapping[str, str],
    common: str = "",
    **variables: str,
) -> Iterator[Scheduler]:
    """Write handlers and a manifest, apply it, and kill what is left at the end.

    `common` is added to all schedules, and the values of a mapping to single sagas.
    """
    (folder / "work.py").write_text(PREAMBLE + handlers, encoding="utf-8")
    timetable = f'cron: "0 0 1 1 *", start_within: 1h{common}'
    settings = sagas if isinstance(sagas, Mapping) else dict.fromkeys(sagas, "")
    schedules = {saga: timetable + more for saga, more in settings.items()}
    (folder / "acme.yaml").write_text(manifest("acme", schedules), encoding="utf-8")
    shell = Shell(folder, url)
    called = shell("apply-manifest", "acme.yaml", "--create-tenants")
    assert called.code == 0, called
    scheduler = Scheduler(folder, url, variables)
    try:
        yield scheduler
    finally:
        if scheduler.process is not None and scheduler.process.poll() is None:
            scheduler.process.kill()
            scheduler.process.communicate()


def events(lines: Sequence[Line], event: str) -> list[Line]:
    """Return the lines of one event."""
    return [line for line in lines if line["event"] == event]
