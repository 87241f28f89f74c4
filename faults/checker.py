"""The verdict: what is in the database and in the lines of the witnesses, against what had to be.

Each check has a name, counts what it has looked at, and what it has found:

- **lost**: an occurrence with no row, and in nobody's cover;
- **doubled**: an occurrence with two rows, or in two covers;
- **unexpected**: a row, or a cover, of what is no occurrence;
- **unfinished**: what was due and did not come to its end when everything was healed;
- **failed**: an execution that had to succeed and did not;
- **effect**: an occurrence without an effect, or with two where a key was heeded, or an effect of
  nothing;
- **call**: an attempt that called its handler twice, or a handler that ran for no attempt;
- **stale**: an attempt on record as a success that its own worker had not come to the end of; an
  execution that changed after its end; attempts that do not add up;
- **lapsed**: a lease that was lost although nothing had happened to its worker, and the machine
  had let it run;
- **suspended**: something that started while its tenant was suspended;
- **audit**: a record that does not say who, or as a part of what;
- **apply**: a tenant whose schedules are of two manifests, or versions that do not add up;
- **innocent**: an execution that lost attempts because its workers were lost, or that is DEAD for
  killing them and did not; and one that kills its worker all the time and is not DEAD for that.

`forgotten`, `reported` and `resumed` are in `aftermath`: what an outage may not take away, and how
soon work continues after it.

`limit`, `lease`, `early` and `cursor` are the sampler's, `crash` is the driver's: a scheduler or a
command that ended by itself.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import DictRow

from faults.aftermath import check_forgotten, check_reported, check_resumed
from faults.cluster import LEASE, World
from faults.evidence import Evidence, Key, Line, idempotency_key
from faults.journal import Findings, Journal
from faults.sampler import Ended
from faults.workload import POISON, Judged, Schedule, Workload

CHECKS = (
    *("lost", "doubled", "unexpected", "unfinished", "failed", "effect", "call", "stale"),
    *("lapsed", "suspended", "audit", "apply", "limit", "lease", "early", "cursor", "crash"),
    *("forgotten", "reported", "resumed", "innocent"),
)
# A handler that was started from a claim that is gone may end so long after the failover.
DELIVERED_WITHIN = timedelta(seconds=15)
_ENDED = {"SUCCEEDED", "DEAD", "SKIPPED", "MISSED", "CANCELLED"}
# How the reason of one begins that was blamed for the loss of its workers.
_BLAMED = "killed its worker"
_SLACK = timedelta(milliseconds=50)
# Seconds; as long as from one heartbeat to the next.
_HELD_UP = LEASE / 3
_TABLES = """
SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = 'audit_record'
"""


@dataclass(frozen=True, slots=True)
class Checker:
    """Holds the evidence against the workload."""

    workload: Workload
    journal: Journal
    evidence: Evidence
    findings: Findings
    # Since when each schedule counts, and until when all are judged.
    since: dict[Key, datetime]
    until: datetime
    # Whether schedulers were killed or stopped from outside.
    kills_workers: bool = True

    def check_evidence(self, remembered: dict[UUID, Ended]) -> None:
        """Check what was gathered."""
        effects = _by_execution(self.evidence.lines)
        for schedule in self.workload.schedules:
            self._occurrences(schedule)
            self._ends(schedule, effects)
            self._innocent(schedule)
        self._calls()
        self._attempts(effects)
        self._remembered(remembered)
        self._suspended()
        check_forgotten(self.journal, self.evidence, self.findings)
        check_reported(self.journal, self.evidence, self.findings)
        check_resumed(self.journal, self.evidence, self.findings)

    def check_records(self, world: World) -> None:
        """Check what is on record about those who changed something."""
        self._audit(world)
        self._applies(world)

    def _rows(self, schedule: Schedule) -> list[DictRow]:
        rows = self.evidence.rows.get(schedule.key, [])
        return [row for row in rows if row["scheduled_for"] <= self.until]

    def _occurrences(self, schedule: Schedule) -> None:
        """Count the rows and covers of each occurrence: one, and of nothing else."""
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
                self.findings.add("unexpected", f"{_named(row)}; it should cover {len(cover)}")
        self.findings.look("lost", len(times))
        self.findings.look("doubled", len(times))
        self.findings.look("unexpected", len(covered))
        for time in times:
            if covered[time] == 0 and schedule.judged is not Judged.AT_MOST:
                self.findings.add("lost", f"{'/'.join(schedule.key)} at {time}")
            elif covered[time] > 1:
                rows = [_named(row) for row in self._rows(schedule) if _covers(row, time)]
                self.findings.add("doubled", f"{'/'.join(schedule.key)} at {time}: {rows}")

    def _ends(self, schedule: Schedule, effects: dict[UUID, list[Line]]) -> None:
        for row in self._rows(schedule):
            self.findings.look("unfinished")
            if row["state"] not in _ENDED:
                self.findings.add("unfinished", _named(row))
                continue
            if schedule.judged is Judged.EACH:
                self.findings.look("failed")
                if row["state"] != "SUCCEEDED":
                    self.findings.add("failed", _named(row))
            if row["state"] == "SUCCEEDED":
                self._effect(schedule, row, effects)

    def _innocent(self, schedule: Schedule) -> None:
        """Only the one that kills its worker is blamed for that, and a loss is not an attempt."""
        for row in self._rows(schedule):
            self.findings.look("innocent")
            is_blamed = row["state"] == "DEAD" and (row["reason"] or "").startswith(_BLAMED)
            if is_blamed != (schedule.saga == POISON and not self.kills_workers):
                self.findings.add("innocent", _named(row))
            attempts = self.evidence.attempts.get(row["id"], [])
            losses = sum(attempt["outcome"] == "LOST" for attempt in attempts)
            left = row["attempts_allowed"] - losses
            if row["losses"] != losses or left != schedule.attempts:
                words = f"{losses} losses, {left} attempts allowed besides"
                self.findings.add("innocent", f"{words}: {_named(row)}")

    def _effect(self, schedule: Schedule, row: DictRow, effects: dict[UUID, list[Line]]) -> None:
        self.findings.look("effect")
        if schedule.url is None:
            number = min(len(effects.get(row["id"], [])), 1)
        else:
            number = self.evidence.worked[idempotency_key(row)]
        if number != 1:
            self.findings.add("effect", f"{number} effects: {_named(row)}")

    def _calls(self) -> None:
        """An attempt is one call, and every call is of an execution that there is."""
        calls: defaultdict[tuple[str, UUID, int], list[datetime]] = defaultdict(list)
        for line in self.evidence.lines:
            calls[line.what, line.execution, line.attempt].append(line.at)
        for (what, execution, attempt), times in calls.items():
            self._once(times, f"attempt {attempt} of {execution} was called ({what})")
        for (key, sent), times in self.evidence.tried.items():
            self._once(times, f"attempt {sent} of {key} was sent")
        rows = {row["id"]: row for some in self.evidence.rows.values() for row in some}
        for line in self.evidence.lines:
            row = rows.get(line.execution)
            is_known = row is not None and row["scheduled_for"] == line.scheduled_for
            # A cover that is gone may have been fired again with another end.
            if not is_known and not self.journal.is_in_gap(line.at, DELIVERED_WITHIN):
                self.findings.add("call", f"no such execution: {line}")

    def _once(self, times: Sequence[datetime], call: str) -> None:
        """Look at the calls of one attempt: only a primary that is gone excuses a repeated one."""
        self.findings.look("call")
        if len(times) == 1:
            return
        if any(self.journal.is_in_gap(time, DELIVERED_WITHIN) for time in times):
            self.journal.repeats += len(times) - 1
        else:
            self.findings.add("call", f"{call} {len(times)} times: {[str(at) for at in times]}")

    def _attempts(self, effects: dict[UUID, list[Line]]) -> None:
        http = {one.key for one in self.workload.schedules if one.url}
        for key, rows in self.evidence.rows.items():
            for row in rows:
                attempts = self.evidence.attempts.get(row["id"], [])
                self._sum(row, attempts)
                for attempt in attempts:
                    self._lapsed(row, attempt)
                    if key not in http and attempt["outcome"] == "SUCCEEDED":
                        self._stale(row, attempt, effects.get(row["id"], []))

    def _sum(self, row: DictRow, attempts: Sequence[DictRow]) -> None:
        """Every attempt of what has ended is on record, once, and the last one made the end."""
        self.findings.look("stale")
        if row["state"] not in _ENDED:
            return
        numbers = sorted(one["attempt"] for one in attempts)
        if numbers != list(range(1, row["attempt"] + 1)):
            self.findings.add("stale", f"attempts {numbers}: {_named(row)}")
        successes = [one["attempt"] for one in attempts if one["outcome"] == "SUCCEEDED"]
        if successes != ([row["attempt"]] if row["state"] == "SUCCEEDED" else []):
            self.findings.add("stale", f"attempts {successes} succeeded: {_named(row)}")

    def _stale(self, row: DictRow, attempt: DictRow, lines: Iterable[Line]) -> None:
        """Only who has come to its end may have succeeded."""
        pid = _pid(attempt["worker_id"])
        for line in lines:
            is_own = line.attempt == attempt["attempt"] and line.pid == pid
            if is_own and line.at <= attempt["finished_at"] + _SLACK:
                return
        words = f"attempt {attempt['attempt']} by {attempt['worker_id']} succeeded at"
        told = f"{words} {attempt['finished_at']}, before its handler: {_named(row)}"
        self.findings.add("stale", f"{told}; {[tuple(map(str, line[:5])) for line in lines]}")

    def _lapsed(self, row: DictRow, attempt: DictRow) -> None:
        if attempt["outcome"] != "LOST":
            return
        self.findings.look("lapsed")
        struck = self.journal.struck_pids.get(_pid(attempt["worker_id"]))
        if struck is not None and struck <= attempt["finished_at"]:
            return
        if self._was_held_up(attempt):
            return
        if not self.journal.is_bad(attempt["started_at"], attempt["finished_at"]):
            words = f"attempt {attempt['attempt']} by {attempt['worker_id']}"
            times = f"from {attempt['started_at']} to {attempt['finished_at']}"
            self.findings.add("lapsed", f"{words} {times}: {_named(row)}")

    def _was_held_up(self, attempt: DictRow) -> bool:
        """Whether the machine had no time for a worker when it had to keep its lease up."""
        pid, until = _pid(attempt["worker_id"]), attempt["finished_at"]
        since = until - 2 * timedelta(seconds=LEASE)
        lost = (
            one.seconds
            for one in self.evidence.held_up
            if one.pid == pid and since <= one.at <= until
        )
        return sum(lost) > _HELD_UP

    def _remembered(self, remembered: dict[UUID, Ended]) -> None:
        rows = {row["id"]: row for some in self.evidence.rows.values() for row in some}
        for execution, was in remembered.items():
            if self.journal.is_in_gap(was.finished_at):
                continue
            self.findings.look("stale")
            row = rows.get(execution)
            found = row and Ended(row["state"], row["attempt"], row["finished_at"], row["reason"])
            if found != was:
                self.findings.add("stale", f"{execution} ended as {was}, and now is {found}")

    def _suspended(self) -> None:
        spans: defaultdict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
        for span in self.journal.suspended:
            spans[span.tenant].append((span.since, span.until))
        for (tenant, _), rows in self.evidence.rows.items():
            if tenant not in spans:
                continue
            for row in rows:
                for attempt in self.evidence.attempts.get(row["id"], []):
                    self.findings.look("suspended")
                    at = attempt["started_at"]
                    if any(since < at < until for since, until in spans[tenant]):
                        self.findings.add("suspended", f"started {at}: {_named(row)}")

    def _audit(self, world: World) -> None:
        for table in world.query(_TABLES):
            schema = table["nspname"]
            records = world.query(f"SELECT * FROM {schema}.audit_record")  # noqa: S608 -- from the catalog
            for record in records:
                self.findings.look("audit")
                if not record["changed_by"] or record["correlation_id"] is None:
                    shown = {
                        name: str(record[name])
                        for name in record
                        if name not in ("before", "after")
                    }
                    self.findings.add("audit", f"{schema}: {shown}")

    def _applies(self, world: World) -> None:
        """Two applies at once leave the whole of one of them, and versions without a gap."""
        rows = world.query(
            "SELECT tenant_id, array_agg(version ORDER BY version) AS versions"
            " FROM tenantcron.manifest_version GROUP BY 1"
        )
        for row in rows:
            self.findings.look("apply")
            if row["versions"] != list(range(1, len(row["versions"]) + 1)):
                self.findings.add("apply", f"{row['tenant_id']} has versions {row['versions']}")
        notes = world.query(
            "SELECT DISTINCT definition -> 'payload' AS payload"
            " FROM tenant_contested.tenant_schedule"
        )
        self.findings.look("apply")
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


def _named(row: DictRow) -> str:
    cover = f" with {row['missed_count']} since {row['covers_from']}" if row["covers_from"] else ""
    reason = f" ({row['reason']})" if row["reason"] else ""
    return (
        f"{row['tenant_id']}/{row['schedule_name']} {row['id']} for {row['scheduled_for']}{cover}:"
        f" {row['state']}{reason}, attempt {row['attempt']}"
    )
