"""The verdict: compare the database and the logged effects with the expected results.

Each check has a name and counts what it has examined and found:

- **lost**: an occurrence without a row that is not covered by another row;
- **duplicated**: an occurrence with two rows, or covered twice;
- **unexpected**: a row or a cover for a time that is not an occurrence;
- **unfinished**: an execution that was due and did not finish after all faults were healed;
- **failed**: an execution that had to succeed and did not;
- **effect**: an occurrence without an effect, with two although the key was honoured, or an effect
  without an occurrence;
- **call**: an attempt that called its handler twice, or a call that belongs to no attempt;
- **stale**: an attempt recorded as a success that its own worker had not finished; an execution
  that changed after its end; attempts that are inconsistent;
- **lapsed**: a lease that was lost although its worker was not struck and the machine let it run;
- **suspended**: an execution that started while its tenant was suspended;
- **audit**: a record without an actor or a correlation id;
- **apply**: a tenant with schedules of two manifests, or versions with gaps;
- **blame**: an execution that lost attempts because its workers were lost, or that is DEAD for
  killing workers and did not; or one that always kills its worker and is not DEAD for that.

`forgotten`, `reported` and `resumed` are in `recovery`: what must survive an outage, and how soon
work continues after it.

`limit`, `lease`, `early` and `cursor` are checked by the sampler. `crash` is checked by the driver:
a scheduler or a command that ended unexpectedly.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import DictRow

from faults.evidence import Evidence, Key, Line, idempotency_key
from faults.journal import Findings, Journal
from faults.recovery import check_forgotten, check_reported, check_resumed
from faults.sampler import Ended
from faults.testbed import LEASE, Testbed
from faults.workload import POISON, Guarantee, Schedule, Workload

CHECKS = (
    *("lost", "duplicated", "unexpected", "unfinished", "failed", "effect", "call", "stale"),
    *("lapsed", "suspended", "audit", "apply", "limit", "lease", "early", "cursor", "crash"),
    *("forgotten", "reported", "resumed", "blame"),
)
# A handler that was started from a lost claim may end this long after the failover.
DELIVERED_WITHIN = timedelta(seconds=15)
_ENDED = {"SUCCEEDED", "DEAD", "SKIPPED", "MISSED", "CANCELLED"}
# The code of the reason of an execution that was blamed for the loss of its workers.
_BLAMED = "killed_worker"
_SLACK = timedelta(milliseconds=50)
# Seconds; the interval between two heartbeats.
_TOLERATED_STALL = LEASE / 3
_TABLES = """
SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = 'audit_record'
"""


@dataclass(frozen=True, slots=True)
class Checker:
    """Compares the evidence with the workload."""

    workload: Workload
    journal: Journal
    evidence: Evidence
    findings: Findings
    # The time from which each schedule counts, and the end for all of them.
    since: dict[Key, datetime]
    until: datetime
    # Whether schedulers were killed or stopped from outside.
    kills_workers: bool = True

    def check_evidence(self, observed: dict[UUID, Ended]) -> None:
        """Check the collected evidence."""
        effects = _by_execution(self.evidence.lines)
        for schedule in self.workload.schedules:
            self.check_occurrences(schedule)
            self._ends(schedule, effects)
            self._blame(schedule)
        self._calls()
        self._attempts(effects)
        self._check_observed(observed)
        self._suspended()
        check_forgotten(self.journal, self.evidence, self.findings)
        check_reported(self.journal, self.evidence, self.findings)
        check_resumed(self.journal, self.evidence, self.findings)

    def check_records(self, testbed: Testbed) -> None:
        """Check the audit records and the manifest versions."""
        self._audit(testbed)
        self._applies(testbed)

    def _rows(self, schedule: Schedule) -> list[DictRow]:
        rows = self.evidence.rows.get(schedule.key, [])
        return [row for row in rows if row["scheduled_for"] <= self.until]

    def check_occurrences(self, schedule: Schedule) -> None:
        """Check that each occurrence has exactly one row or cover."""
        since = self.since.get(schedule.key)
        if since is None:
            self.findings.add("lost", f"{'/'.join(schedule.key)} has no cursor")
            return
        times = list(schedule.timetable.occurrences(since, self.until))
        covered: Counter[datetime] = Counter()
        for row in self._rows(schedule):
            first = bisect_left(times, row["covers_from"] or row["scheduled_for"])
            cover = times[first : bisect_right(times, row["scheduled_for"])]
            covered.update(cover)
            if len(cover) != row["missed_count"] + 1 or cover[-1] != row["scheduled_for"]:
                self.findings.add("unexpected", f"{describe(row)}; it should cover {len(cover)}")
        self.findings.examine("lost", len(times))
        self.findings.examine("duplicated", len(times))
        self.findings.examine("unexpected", len(covered))
        for time in times:
            if covered[time] == 0 and schedule.guarantee is not Guarantee.AT_MOST:
                self.findings.add("lost", f"{'/'.join(schedule.key)} at {time}")
            elif covered[time] > 1:
                rows = [describe(row) for row in self._rows(schedule) if _covers(row, time)]
                self.findings.add("duplicated", f"{'/'.join(schedule.key)} at {time}: {rows}")

    def _ends(self, schedule: Schedule, effects: dict[UUID, list[Line]]) -> None:
        for row in self._rows(schedule):
            self.findings.examine("unfinished")
            if row["state"] not in _ENDED:
                self.findings.add("unfinished", describe(row))
                continue
            if schedule.guarantee is Guarantee.EACH:
                self.findings.examine("failed")
                if row["state"] != "SUCCEEDED":
                    self.findings.add("failed", describe(row))
            if row["state"] == "SUCCEEDED":
                self._effect(schedule, row, effects)

    def _blame(self, schedule: Schedule) -> None:
        """Check that only a killer is blamed for its worker, and that a loss is not an attempt."""
        for row in self._rows(schedule):
            self.findings.examine("blame")
            is_blamed = row["state"] == "DEAD" and row["reason_code"] == _BLAMED
            if is_blamed != (schedule.saga == POISON and not self.kills_workers):
                self.findings.add("blame", describe(row))
            attempts = self.evidence.attempts.get(row["id"], [])
            losses = sum(attempt["outcome"] == "LOST" for attempt in attempts)
            left = row["attempts_allowed"] - losses
            if row["losses"] != losses or left != schedule.attempts:
                words = f"{losses} losses, {left} other attempts allowed"
                self.findings.add("blame", f"{words}: {describe(row)}")

    def _effect(self, schedule: Schedule, row: DictRow, effects: dict[UUID, list[Line]]) -> None:
        self.findings.examine("effect")
        if schedule.url is None:
            number = min(len(effects.get(row["id"], [])), 1)
        else:
            number = self.evidence.effects_by_key[idempotency_key(row)]
        if number != 1:
            self.findings.add("effect", f"{number} effects: {describe(row)}")

    def _calls(self) -> None:
        """Check that an attempt is one call, and every call belongs to an execution."""
        calls: defaultdict[tuple[str, UUID, int], list[datetime]] = defaultdict(list)
        for line in self.evidence.lines:
            calls[line.what, line.execution, line.attempt].append(line.at)
        for (what, execution, attempt), times in calls.items():
            self._once(times, f"attempt {attempt} of {execution} was called ({what})")
        for (key, sent), times in self.evidence.request_times.items():
            self._once(times, f"attempt {sent} of {key} was sent")
        rows = {row["id"]: row for rows in self.evidence.rows.values() for row in rows}
        for line in self.evidence.lines:
            row = rows.get(line.execution)
            is_known = row is not None and row["scheduled_for"] == line.scheduled_for
            # A lost cover may have been fired again with another end.
            if not is_known and not self.journal.is_in_gap(line.at, DELIVERED_WITHIN):
                self.findings.add("call", f"no such execution: {line}")

    def _once(self, times: Sequence[datetime], call: str) -> None:
        """Check the calls of one attempt: only a lost primary excuses a repeated one."""
        self.findings.examine("call")
        if len(times) == 1:
            return
        if any(self.journal.is_in_gap(time, DELIVERED_WITHIN) for time in times):
            self.journal.repeats += len(times) - 1
        else:
            self.findings.add("call", f"{call} {len(times)} times: {[str(at) for at in times]}")

    def _attempts(self, effects: dict[UUID, list[Line]]) -> None:
        http = {schedule.key for schedule in self.workload.schedules if schedule.url}
        for key, rows in self.evidence.rows.items():
            for row in rows:
                attempts = self.evidence.attempts.get(row["id"], [])
                self._check_attempts(row, attempts)
                for attempt in attempts:
                    self._lapsed(row, attempt)
                    if key not in http and attempt["outcome"] == "SUCCEEDED":
                        self._stale(row, attempt, effects.get(row["id"], []))

    def _check_attempts(self, row: DictRow, attempts: Sequence[DictRow]) -> None:
        """Check that all attempts of an ended execution are recorded, and the last one ended it."""
        self.findings.examine("stale")
        if row["state"] not in _ENDED:
            return
        numbers = sorted(attempt["attempt"] for attempt in attempts)
        if numbers != list(range(1, row["attempt"] + 1)):
            self.findings.add("stale", f"attempts {numbers}: {describe(row)}")
        successes = [
            attempt["attempt"] for attempt in attempts if attempt["outcome"] == "SUCCEEDED"
        ]
        if successes != ([row["attempt"]] if row["state"] == "SUCCEEDED" else []):
            self.findings.add("stale", f"attempts {successes} succeeded: {describe(row)}")

    def _stale(self, row: DictRow, attempt: DictRow, lines: Iterable[Line]) -> None:
        """Check that a successful attempt had finished."""
        pid = _pid(attempt["worker_id"])
        for line in lines:
            is_own = line.attempt == attempt["attempt"] and line.pid == pid
            if is_own and line.at <= attempt["finished_at"] + _SLACK:
                return
        words = f"attempt {attempt['attempt']} by {attempt['worker_id']} succeeded at"
        message = f"{words} {attempt['finished_at']}, before its handler: {describe(row)}"
        self.findings.add("stale", f"{message}; {[tuple(map(str, line[:5])) for line in lines]}")

    def _lapsed(self, row: DictRow, attempt: DictRow) -> None:
        if attempt["outcome"] != "LOST":
            return
        self.findings.examine("lapsed")
        struck = self.journal.struck_pids.get(_pid(attempt["worker_id"]))
        if struck is not None and struck <= attempt["finished_at"]:
            return
        if self._was_stalled(attempt):
            return
        if not self.journal.is_bad(attempt["started_at"], attempt["finished_at"]):
            words = f"attempt {attempt['attempt']} by {attempt['worker_id']}"
            times = f"from {attempt['started_at']} to {attempt['finished_at']}"
            self.findings.add("lapsed", f"{words} {times}: {describe(row)}")

    def _was_stalled(self, attempt: DictRow) -> bool:
        """Whether the machine did not run a worker when it had to renew its lease."""
        pid, until = _pid(attempt["worker_id"]), attempt["finished_at"]
        since = until - 2 * timedelta(seconds=LEASE)
        lost = (
            stall.seconds
            for stall in self.evidence.stalls
            if stall.pid == pid and since <= stall.at <= until
        )
        return sum(lost) > _TOLERATED_STALL

    def _check_observed(self, observed: dict[UUID, Ended]) -> None:
        rows = {row["id"]: row for rows in self.evidence.rows.values() for row in rows}
        for execution, was in observed.items():
            if self.journal.is_in_gap(was.finished_at):
                continue
            self.findings.examine("stale")
            row = rows.get(execution)
            found = row and Ended(row["state"], row["attempt"], row["finished_at"], row["reason"])
            if found != was:
                self.findings.add("stale", f"{execution} ended as {was}, and is now {found}")

    def _suspended(self) -> None:
        spans: defaultdict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
        for span in self.journal.suspended:
            spans[span.tenant].append((span.since, span.until))
        for (tenant, _), rows in self.evidence.rows.items():
            if tenant not in spans:
                continue
            for row in rows:
                for attempt in self.evidence.attempts.get(row["id"], []):
                    self.findings.examine("suspended")
                    at = attempt["started_at"]
                    if any(since < at < until for since, until in spans[tenant]):
                        self.findings.add("suspended", f"started {at}: {describe(row)}")

    def _audit(self, testbed: Testbed) -> None:
        for table in testbed.query(_TABLES):
            schema = table["nspname"]
            records = testbed.query(f"SELECT * FROM {schema}.audit_record")  # noqa: S608 -- from the catalog
            for record in records:
                self.findings.examine("audit")
                if not record["changed_by"] or record["correlation_id"] is None:
                    shown = {
                        name: str(record[name])
                        for name in record
                        if name not in ("before", "after")
                    }
                    self.findings.add("audit", f"{schema}: {shown}")

    def _applies(self, testbed: Testbed) -> None:
        """Check that concurrent applies leave one manifest, and versions without a gap."""
        rows = testbed.query(
            "SELECT tenant_id, array_agg(version ORDER BY version) AS versions"
            " FROM tenantcron.manifest_version GROUP BY 1"
        )
        for row in rows:
            self.findings.examine("apply")
            if row["versions"] != list(range(1, len(row["versions"]) + 1)):
                self.findings.add("apply", f"{row['tenant_id']} has versions {row['versions']}")
        notes = testbed.query(
            "SELECT DISTINCT definition -> 'payload' AS payload"
            " FROM tenant_contested.tenant_schedule"
        )
        self.findings.examine("apply")
        if len(notes) != 1:
            self.findings.add("apply", f"contested has schedules of several manifests: {notes}")


def _by_execution(lines: Iterable[Line]) -> dict[UUID, list[Line]]:
    found: defaultdict[UUID, list[Line]] = defaultdict(list)
    for line in lines:
        if line.what == "E":
            found[line.execution].append(line)
    return dict(found)


def _pid(worker_id: str) -> int:
    return int(worker_id.split(":")[1])


def _covers(row: DictRow, time: datetime) -> bool:
    return bool((row["covers_from"] or row["scheduled_for"]) <= time <= row["scheduled_for"])


def describe(row: DictRow) -> str:
    cover = f" with {row['missed_count']} since {row['covers_from']}" if row["covers_from"] else ""
    why = [row[name] for name in ("reason_code", "reason") if row[name]]
    reason = f" ({': '.join(why)})" if why else ""
    return (
        f"{row['tenant_id']}/{row['schedule_name']} {row['id']} for {row['scheduled_for']}{cover}:"
        f" {row['state']}{reason}, attempt {row['attempt']}"
    )
