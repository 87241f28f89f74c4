"""The verdict on work at remote workers.

- **lost**, **duplicated**, **unexpected**, **unfinished**, **failed**: as for all workloads;
- **effect**: the attempt that succeeded had no effect, or two without a redelivery;
- **call**: an attempt that began without being recorded, or twice although neither its worker nor
  the broker was killed in between; at Celery also one that began after its end; an earlier attempt
  without a recorded failure or loss, so that its repeat is not explained;
- **stale**: a report that was accepted for an attempt that did not succeed, after the deadline, or
  for two attempts of an execution;
- **forgotten**: a report that was accepted, and whose execution is not recorded as a success.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from psycopg.rows import DictRow

from faults.checker import Checker, describe
from faults.evidence import Evidence, idempotency_key
from faults.journal import Findings
from faults.remote_records import OVERDUE, OVERDUE_TIMEOUT
from faults.remote_workload import Remote
from faults.workload import Schedule

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Between a decision of the database and the line of a worker.
_SLACK = timedelta(seconds=2)
_EXPLAINED = {"LOST", "FAILED", "TIMED_OUT", "INTERRUPTED"}
# Seconds.
_TIMEOUT = {OVERDUE: OVERDUE_TIMEOUT}
_LONGEST = 60


@dataclass(slots=True)
class RemoteRecords:
    """What workers have recorded."""

    # Times by key and attempt.
    starts: defaultdict[tuple[str, int], list[datetime]] = field(
        default_factory=lambda: defaultdict(list)
    )
    effects: Counter[tuple[str, int]] = field(default_factory=Counter)
    # Attempts by execution.
    accepted: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    repeated: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    refused: int = 0


def read_records(file: Path) -> RemoteRecords:
    """Read the lines of all workers."""
    records = RemoteRecords()
    for line in file.read_text(encoding="ascii").splitlines() if file.exists() else ():
        kind, key, attempt, at = line.split()
        if kind == "R":
            moment = _EPOCH + timedelta(microseconds=int(at))
            records.starts[key, int(attempt)].append(moment)
        elif kind == "E":
            records.effects[key, int(attempt)] += 1
        elif kind == "X":
            records.refused += 1
        else:
            reports = records.accepted if kind == "C" else records.repeated
            reports[key].append(int(attempt))
    return records


@dataclass(frozen=True, slots=True)
class RemoteChecker:
    """Compares the rows with what workers have recorded."""

    checker: Checker
    remote: Remote
    evidence: Evidence
    records: RemoteRecords
    findings: Findings
    # When workers or the broker were killed: messages may be delivered again.
    kills: list[datetime]

    def check(self) -> None:
        """Check all executions."""
        keys = set()
        for schedule in self.checker.workload.schedules:
            self.checker.check_occurrences(schedule)
            for row in self.evidence.rows.get(schedule.key, []):
                keys.add(idempotency_key(row))
                self._check_row(schedule, row)
        for key, attempt in self.records.starts:
            if key not in keys:
                self.findings.add("call", f"attempt {attempt} of {key} has no execution")

    def _check_row(self, schedule: Schedule, row: DictRow) -> None:
        if row["scheduled_for"] > self.checker.until and row["state"] != "SUCCEEDED":
            return
        self.findings.examine("unfinished")
        self.findings.examine("failed")
        if row["state"] != "SUCCEEDED":
            kind = "unfinished" if row["finished_at"] is None else "failed"
            self.findings.add(kind, describe(row))
            return
        self._check_effect(row)
        self._check_starts(row)
        self._check_reports(schedule, row)

    def _check_effect(self, row: DictRow) -> None:
        self.findings.examine("effect")
        last = (idempotency_key(row), row["attempt"])
        effects, starts = self.records.effects[last], len(self.records.starts[last])
        if not 1 <= effects <= starts:
            self.findings.add("effect", f"{effects} effects, {starts} starts: {describe(row)}")

    def _check_starts(self, row: DictRow) -> None:
        """Check that every repeat is explained by a recorded attempt, or by a redelivery."""
        key = idempotency_key(row)
        attempts = {attempt["attempt"]: attempt for attempt in self.evidence.attempts[row["id"]]}
        for number in range(1, row["attempt"] + 1):
            times, attempt = self.records.starts.get((key, number), []), attempts.get(number)
            self.findings.examine("call")
            if attempt is None:
                self.findings.add("call", f"attempt {number} is not recorded: {describe(row)}")
                continue
            if number < row["attempt"] and attempt["outcome"] not in _EXPLAINED:
                words = f"attempt {number} ended as {attempt['outcome']} and was repeated"
                self.findings.add("call", f"{words}: {describe(row)}")
            # A request can be delayed on its way. A message is checked before it runs.
            is_late = any(time > attempt["finished_at"] + _SLACK for time in times)
            if is_late and self.remote is Remote.CELERY:
                words = f"attempt {number} ended at {attempt['finished_at']}, and began at {times}"
                self.findings.add("call", f"{words}: {describe(row)}")
            for first, second in zip(sorted(times), sorted(times)[1:], strict=False):
                if not any(first - _SLACK <= kill <= second for kill in self.kills):
                    self.findings.add("call", f"attempt {number} began twice: {describe(row)}")

    def _check_reports(self, schedule: Schedule, row: DictRow) -> None:
        execution = str(row["id"])
        accepted, repeated = self.records.accepted[execution], self.records.repeated[execution]
        self.findings.examine("stale", len(accepted) + len(repeated))
        self.findings.examine("forgotten", len(accepted))
        wrong = [attempt for attempt in (*accepted, *repeated) if attempt != row["attempt"]]
        if len(accepted) > 1 or wrong:
            words = f"accepted {accepted}, repeated {repeated}"
            self.findings.add("stale", f"{words}: {describe(row)}")
        took = row["finished_at"] - row["started_at"]
        if took > timedelta(seconds=_TIMEOUT.get(schedule.saga, _LONGEST)):
            self.findings.add("stale", f"accepted after the deadline, {took}: {describe(row)}")


def check_forgotten_reports(records: RemoteRecords, evidence: Evidence, findings: Findings) -> None:
    """Check that every accepted report ended its execution."""
    states = {str(row["id"]): row["state"] for rows in evidence.rows.values() for row in rows}
    for execution, attempts in records.accepted.items():
        if states.get(execution) != "SUCCEEDED":
            words = f"attempt {attempts} of {execution} was accepted"
            findings.add("forgotten", f"{words}, it is {states.get(execution)}")
