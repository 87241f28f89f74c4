"""What is left when a run is over: rows, attempts, and the lines of those who had effects."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import DictRow

from faults.cluster import World

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXECUTIONS = """
SELECT id, tenant_id, schedule_name, schedule_id, scheduled_for, state, reason, covers_from,
    missed_count, attempt, attempts_allowed, losses, worker_id, started_at, finished_at
FROM tenantcron.execution WHERE schedule_name <> 'ancient'
"""
_ATTEMPTS = """
SELECT execution_id, attempt, worker_id, started_at, finished_at, outcome, error
FROM tenantcron.execution_attempt
"""
_REPORTED = "SELECT execution_id, attempt FROM tenantcron.failover_loss"

Key = tuple[str, str]


class Line(NamedTuple):
    """One line of a handler."""

    what: str
    execution: UUID
    attempt: int
    pid: int
    at: datetime
    key: Key
    scheduled_for: datetime


class HeldUp(NamedTuple):
    """For how many seconds before a moment the machine kept a scheduler from running."""

    pid: int
    at: datetime
    seconds: float


@dataclass(slots=True)
class Evidence:
    """All of it, by what is asked for."""

    rows: dict[Key, list[DictRow]]
    attempts: dict[UUID, list[DictRow]]
    lines: list[Line]
    # How often the service was asked, and how often it worked, by idempotency key.
    asked: Counter[str] = field(default_factory=Counter)
    worked: Counter[str] = field(default_factory=Counter)
    # When requests came, by key and attempt.
    tried: defaultdict[tuple[str, str], list[datetime]] = field(
        default_factory=lambda: defaultdict(list)
    )
    held_up: list[HeldUp] = field(default_factory=list)
    # When a scheduler looked for work, by its seat, in the order of time.
    progress: defaultdict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    # Attempts that the product reports as lost in a failover.
    reported: set[tuple[UUID, int]] = field(default_factory=set)


def gather(world: World) -> Evidence:
    """Read everything."""
    rows: defaultdict[Key, list[DictRow]] = defaultdict(list)
    for row in world.query(_EXECUTIONS):
        rows[row["tenant_id"], row["schedule_name"]].append(row)
    attempts: defaultdict[UUID, list[DictRow]] = defaultdict(list)
    for row in world.query(_ATTEMPTS):
        attempts[row["execution_id"]].append(row)
    for some in rows.values():
        _add_successes(some, attempts)
    found = Evidence(dict(rows), dict(attempts), list(_lines(world.effects)))
    found.held_up.extend(
        HeldUp(int(pid), _moment(at), int(lost) / 1e6) for pid, at, lost in _words(world.held_up)
    )
    found.reported = {(row["execution_id"], row["attempt"]) for row in world.query(_REPORTED)}
    for seat, at in _words(world.progress):
        found.progress[seat].append(_moment(at))
    for what, key, attempt, at in _words(world.calls):
        if what == "R":
            found.asked[key] += 1
            found.tried[key, attempt].append(_moment(at))
        else:
            found.worked[key] += 1
    return found


def _add_successes(rows: list[DictRow], attempts: defaultdict[UUID, list[DictRow]]) -> None:
    """Add the attempts that have no row, because the execution's own row tells of them."""
    for row in rows:
        known = {one["attempt"] for one in attempts.get(row["id"], [])}
        if row["state"] == "SUCCEEDED" and row["attempt"] not in known:
            same = {
                name: row[name] for name in ("attempt", "worker_id", "started_at", "finished_at")
            }
            made = {"execution_id": row["id"], "outcome": "SUCCEEDED", "error": None, **same}
            attempts[row["id"]].append(made)


def idempotency_key(row: DictRow) -> str:
    """Return what a service must be told, as docs/targets.md says."""
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
