"""The evidence of a run: rows, attempts, and the lines that handlers and services logged."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import DictRow

from faults.testbed import Testbed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXECUTIONS = """
SELECT id, tenant_id, schedule_name, schedule_id, scheduled_for, state, reason_code, reason,
    covers_from, missed_count, attempt, attempts_allowed, losses, worker_id, started_at, finished_at
FROM tenantcron.execution WHERE schedule_name <> 'ancient'
"""
_ATTEMPTS = """
SELECT execution_id, attempt, worker_id, started_at, finished_at, outcome, error
FROM tenantcron.execution_attempt
"""
_REPORTED = "SELECT execution_id, attempt FROM tenantcron.failover_loss"

Key = tuple[str, str]


class Line(NamedTuple):
    """One line logged by a handler."""

    what: str
    execution: UUID
    attempt: int
    pid: int
    at: datetime
    key: Key
    scheduled_for: datetime


class Stall(NamedTuple):
    """The seconds before a moment in which the machine kept a scheduler from running."""

    pid: int
    at: datetime
    seconds: float


@dataclass(slots=True)
class Evidence:
    """All evidence of a run, indexed for the checks."""

    rows: dict[Key, list[DictRow]]
    attempts: dict[UUID, list[DictRow]]
    lines: list[Line]
    # How often the service was called, and how often it had an effect, by idempotency key.
    calls_by_key: Counter[str] = field(default_factory=Counter)
    effects_by_key: Counter[str] = field(default_factory=Counter)
    # Times of the requests, by key and attempt.
    request_times: defaultdict[tuple[str, str], list[datetime]] = field(
        default_factory=lambda: defaultdict(list)
    )
    stalls: list[Stall] = field(default_factory=list)
    # Times at which a scheduler claimed, by instance, sorted.
    progress: defaultdict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    # Attempts that the product reports as lost in a failover.
    reported: set[tuple[UUID, int]] = field(default_factory=set)


def gather(testbed: Testbed) -> Evidence:
    """Read all evidence."""
    found = gather_rows(testbed)
    found.lines += _lines(testbed.effects)
    found.stalls.extend(
        Stall(int(pid), _moment(at), int(lost) / 1e6) for pid, at, lost in _words(testbed.stalls)
    )
    found.reported = {(row["execution_id"], row["attempt"]) for row in testbed.query(_REPORTED)}
    for instance, at in _words(testbed.progress):
        found.progress[instance].append(_moment(at))
    for what, key, attempt, at in _words(testbed.calls):
        if what == "R":
            found.calls_by_key[key] += 1
            found.request_times[key, attempt].append(_moment(at))
        else:
            found.effects_by_key[key] += 1
    return found


def gather_rows(testbed: Testbed) -> Evidence:
    """Read the executions and their attempts."""
    rows: defaultdict[Key, list[DictRow]] = defaultdict(list)
    for row in testbed.query(_EXECUTIONS):
        rows[row["tenant_id"], row["schedule_name"]].append(row)
    attempts: defaultdict[UUID, list[DictRow]] = defaultdict(list)
    for row in testbed.query(_ATTEMPTS):
        attempts[row["execution_id"]].append(row)
    for executions in rows.values():
        _add_successes(executions, attempts)
    return Evidence(dict(rows), dict(attempts), [])


def _add_successes(rows: list[DictRow], attempts: defaultdict[UUID, list[DictRow]]) -> None:
    """Add the attempts without a row, which are recorded in the row of the execution only."""
    for row in rows:
        known = {attempt["attempt"] for attempt in attempts.get(row["id"], [])}
        if row["state"] == "SUCCEEDED" and row["attempt"] not in known:
            columns = {
                name: row[name] for name in ("attempt", "worker_id", "started_at", "finished_at")
            }
            attempt = {"execution_id": row["id"], "outcome": "SUCCEEDED", "error": None, **columns}
            attempts[row["id"]].append(attempt)


def idempotency_key(row: DictRow) -> str:
    """Return the idempotency key that a service receives, as in docs/targets-http.md."""
    milliseconds = (row["scheduled_for"] - _EPOCH) // timedelta(milliseconds=1)
    return f"sched:{row['schedule_id']}:{milliseconds}"


def _words(file: Path) -> Iterator[list[str]]:
    if file.exists():
        with file.open(encoding="ascii") as lines:
            yield from (line.split() for line in lines)


def _lines(file: Path) -> Iterator[Line]:
    for what, execution, attempt, pid, at, name, scheduled_for in _words(file):
        tenant, _, schedule = name.partition("/")
        yield Line(
            what,
            UUID(execution),
            int(attempt),
            int(pid),
            _moment(at),
            (tenant, schedule),
            _moment(scheduled_for),
        )


def _moment(microseconds: str) -> datetime:
    return _EPOCH + timedelta(microseconds=int(microseconds))
