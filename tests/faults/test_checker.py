"""The checker notices what it is there for: evidence with one thing wrong at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from psycopg.rows import DictRow

from faults.checker import Checker
from faults.evidence import Evidence, HeldUp, Line, idempotency_key
from faults.expectation import Every
from faults.journal import Findings, Gap, Journal, Span
from faults.sampler import Ended
from faults.workload import POISON, Judged, Schedule, Workload

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY, PID = ("acme", "work0"), 77
WORKER = f"host:{PID}:abc"
HTTP = Schedule("acme", "call", Every(1), url="http://127.0.0.1:1/quick")


def execution(number: int, **columns: object) -> DictRow:
    """Return the row of an occurrence so many seconds after noon, which has succeeded."""
    at = NOON + number * SECOND
    return {
        "id": UUID(int=number),
        "tenant_id": KEY[0],
        "schedule_name": KEY[1],
        "schedule_id": UUID(int=1000),
        "scheduled_for": at,
        "state": "SUCCEEDED",
        "reason": None,
        "covers_from": None,
        "missed_count": 0,
        "attempt": 1,
        "attempts_allowed": 20,
        "losses": 0,
        "started_at": at,
        "finished_at": at + SECOND,
        **columns,
    }


def attempt(number: int, **columns: object) -> DictRow:
    """Return the row of the only attempt of an execution."""
    at = NOON + number * SECOND
    row = {"execution_id": UUID(int=number), "attempt": 1, "worker_id": WORKER, "error": None}
    return {**row, "started_at": at, "finished_at": at + SECOND, "outcome": "SUCCEEDED", **columns}


def line(number: int, what: str = "E", *, attempt: int = 1, pid: int = PID) -> Line:
    """Return the line of a handler."""
    at = NOON + number * SECOND
    return Line(what, UUID(int=number), attempt, pid, at, KEY, at)


@dataclass(slots=True)
class Case:
    """Three occurrences, all of them as they should be until a test changes something."""

    judged: Judged = Judged.EACH
    rows: list[DictRow] = field(default_factory=lambda: [execution(n) for n in (1, 2, 3)])
    attempts: dict[UUID, list[DictRow]] = field(
        default_factory=lambda: {UUID(int=n): [attempt(n)] for n in (1, 2, 3)}
    )
    lines: list[Line] = field(default_factory=lambda: [line(n) for n in (1, 2, 3)])
    journal: Journal = field(default_factory=Journal)
    remembered: dict[UUID, Ended] = field(default_factory=dict)
    held_up: list[HeldUp] = field(default_factory=list)

    def found(self) -> set[str]:
        """Return the checks that found something."""
        findings = Findings()
        load = Workload((Schedule(*KEY, Every(1), self.judged),))
        evidence = Evidence({KEY: self.rows}, self.attempts, self.lines, held_up=self.held_up)
        since, until = {KEY: NOON}, NOON + 3 * SECOND
        Checker(load, self.journal, evidence, findings, since, until).check_evidence(
            self.remembered
        )
        return set(findings.number)


def test_what_is_as_it_should_be_is_not_found_fault_with() -> None:
    assert Case().found() == set()


def drop_row(case: Case) -> None:
    del case.rows[1]
    del case.lines[1]


def add_row(case: Case) -> None:
    case.rows.append(execution(2, id=UUID(int=9), attempt=0, state="SKIPPED"))


def add_stranger(case: Case) -> None:
    at = NOON + 2.5 * SECOND
    case.rows.append(execution(9, scheduled_for=at, attempt=0, state="SKIPPED"))


def wrong_cover(case: Case) -> None:
    case.rows = [execution(3, covers_from=NOON + SECOND, missed_count=1)]
    case.lines = case.lines[2:]


def still_waits(case: Case) -> None:
    case.rows[0] |= {"state": "PENDING", "attempt": 0}
    del case.attempts[UUID(int=1)], case.lines[0]


def dead(case: Case) -> None:
    case.rows[0] |= {"state": "DEAD"}
    case.attempts[UUID(int=1)][0] |= {"outcome": "FAILED"}


def no_effect(case: Case) -> None:
    """Its handler returned in a process that nobody has a line of."""
    case.lines[0] = line(1, "B")


def called_twice(case: Case) -> None:
    case.lines.append(line(2, pid=78))


def called_for_nothing(case: Case) -> None:
    case.lines.append(line(8))


def written_by_another(case: Case) -> None:
    case.lines[0] = line(1, pid=78)


def written_too_early(case: Case) -> None:
    case.attempts[UUID(int=1)][0] |= {"finished_at": NOON + 0.5 * SECOND}


def attempt_missing(case: Case) -> None:
    case.rows[0] |= {"attempt": 2}


def changed_after_its_end(case: Case) -> None:
    was = Ended("DEAD", 1, NOON + 2 * SECOND, None)
    case.remembered = {UUID(int=1): was}


def lost_by_nobody(case: Case) -> None:
    case.rows[0] |= {"attempt": 2, "attempts_allowed": 21, "losses": 1}
    again = attempt(1, attempt=2)
    case.attempts[UUID(int=1)] = [attempt(1, outcome="LOST"), again]
    case.lines.append(line(1, attempt=2))


def blamed_for_a_lost_worker(case: Case) -> None:
    dead(case)
    case.rows[0] |= {"reason": "killed its worker 3 times"}


def loss_used_an_attempt_up(case: Case) -> None:
    lost_by_nobody(case)
    case.journal.struck_pids[PID] = NOON
    case.rows[0] |= {"attempts_allowed": 20}


def started_while_suspended(case: Case) -> None:
    case.journal.suspended.append(Span(KEY[0], NOON + 1.5 * SECOND, NOON + 2.5 * SECOND))


@pytest.mark.parametrize(
    ("wrong", "noticed"),
    [
        (drop_row, {"lost"}),
        (add_row, {"doubled", "failed"}),
        (add_stranger, {"unexpected", "failed"}),
        (wrong_cover, {"unexpected"}),
        (still_waits, {"unfinished"}),
        (dead, {"failed"}),
        (no_effect, {"effect", "stale"}),
        (called_twice, {"call"}),
        (called_for_nothing, {"call"}),
        (written_by_another, {"stale"}),
        (written_too_early, {"stale"}),
        (attempt_missing, {"stale"}),
        (changed_after_its_end, {"stale"}),
        (lost_by_nobody, {"lapsed"}),
        (blamed_for_a_lost_worker, {"failed", "innocent"}),
        (loss_used_an_attempt_up, {"innocent"}),
        (started_while_suspended, {"suspended"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_one_thing_that_is_wrong_is_noticed(
    wrong: Callable[[Case], None], noticed: set[str]
) -> None:
    case = Case()
    wrong(case)
    assert case.found() == noticed


@pytest.mark.parametrize(
    ("reason", "kills_workers", "noticed"),
    [
        ("killed its worker 3 times", False, set()),
        ("killed its worker 3 times", True, {"innocent"}),
        ("it never works", False, {"innocent"}),
        ("it never works", True, set()),
    ],
)
def test_who_kills_its_worker_is_blamed_unless_workers_are_killed_from_outside(
    reason: str, *, kills_workers: bool, noticed: set[str]
) -> None:
    poison = Schedule("acme", POISON, Every(1), Judged.ROW)
    row = execution(1, schedule_name=POISON, state="DEAD", reason=reason)
    tried = attempt(1, outcome="FAILED")
    evidence, findings = Evidence({poison.key: [row]}, {row["id"]: [tried]}, []), Findings()
    load, since = Workload((poison,)), {poison.key: NOON}
    until = NOON + SECOND
    Checker(load, Journal(), evidence, findings, since, until, kills_workers).check_evidence({})
    assert set(findings.number) == noticed


def test_a_cover_stands_for_what_it_covers() -> None:
    cover = execution(3, covers_from=NOON + SECOND, missed_count=2, state="MISSED", attempt=0)
    assert Case(Judged.COVERED, [cover], {}, []).found() == set()


def test_a_lease_that_is_lost_by_a_struck_worker_or_in_a_bad_time_is_no_finding() -> None:
    struck, bad = Case(), Case()
    for case in (struck, bad):
        lost_by_nobody(case)
    struck.journal.struck_pids[PID] = NOON
    bad.journal.bad_times.append((NOON, NOON + 2 * SECOND))
    assert struck.found() == bad.found() == set()


def test_a_call_is_repeated_without_a_finding_only_if_its_record_is_gone() -> None:
    case = Case()
    called_twice(case)
    case.journal.gaps.append(Gap(NOON + SECOND, NOON + 3 * SECOND))
    assert case.found() == set()
    assert case.journal.repeats == 1


# The attempt that was lost came to its end two seconds after noon.
@pytest.mark.parametrize(
    ("held_up", "noticed"),
    [
        ([HeldUp(PID, NOON + SECOND, 1.0), HeldUp(PID, NOON + 2 * SECOND, 1.0)], set()),
        ([HeldUp(PID, NOON + SECOND, 1.0)], {"lapsed"}),
        ([HeldUp(PID, NOON + 3 * SECOND, 9.0)], {"lapsed"}),
        ([HeldUp(PID, NOON - 60 * SECOND, 9.0)], {"lapsed"}),
        ([HeldUp(PID + 1, NOON + SECOND, 9.0)], {"lapsed"}),
    ],
    ids=["long enough", "too short", "afterwards", "long before", "another process"],
)
def test_a_lease_that_lapses_while_the_machine_has_no_time_for_its_worker_is_no_finding(
    held_up: list[HeldUp], noticed: set[str]
) -> None:
    case = Case(held_up=held_up)
    lost_by_nobody(case)
    assert case.found() == noticed


@pytest.mark.parametrize(("worked", "noticed"), [(0, {"effect"}), (1, set()), (2, {"effect"})])
def test_a_service_that_heeds_the_key_works_once_for_each_occurrence(
    worked: int, noticed: set[str]
) -> None:
    row = execution(1, schedule_name="call")
    evidence = Evidence({HTTP.key: [row]}, {row["id"]: [attempt(1)]}, [])
    evidence.worked[idempotency_key(row)] = worked
    findings = Findings()
    load, since = Workload((HTTP,)), {HTTP.key: NOON}
    checker = Checker(load, Journal(), evidence, findings, since, NOON + SECOND)
    checker.check_evidence({})
    assert set(findings.number) == noticed
