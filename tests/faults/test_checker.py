"""The checker detects evidence with one thing wrong at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from psycopg.rows import DictRow

from faults.checker import Checker
from faults.evidence import Evidence, Line, Stall, idempotency_key
from faults.expectation import Every
from faults.journal import Findings, Gap, Journal, Span
from faults.sampler import Ended
from faults.workload import POISON, Guarantee, Schedule, Workload

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY, PID = ("acme", "work0"), 77
WORKER = f"host:{PID}:abc"
HTTP = Schedule("acme", "call", Every(1), url="http://127.0.0.1:1/quick")


def execution(number: int, **columns: object) -> DictRow:
    """Return a row that succeeded, for the occurrence this many seconds after noon."""
    at = NOON + number * SECOND
    return {
        "id": UUID(int=number),
        "tenant_id": KEY[0],
        "schedule_name": KEY[1],
        "schedule_id": UUID(int=1000),
        "scheduled_for": at,
        "state": "SUCCEEDED",
        "reason_code": None,
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
    """Return a line logged by a handler."""
    at = NOON + number * SECOND
    return Line(what, UUID(int=number), attempt, pid, at, KEY, at)


@dataclass(slots=True)
class Case:
    """Three occurrences, all correct until a test changes something."""

    guarantee: Guarantee = Guarantee.EACH
    rows: list[DictRow] = field(default_factory=lambda: [execution(n) for n in (1, 2, 3)])
    attempts: dict[UUID, list[DictRow]] = field(
        default_factory=lambda: {UUID(int=n): [attempt(n)] for n in (1, 2, 3)}
    )
    lines: list[Line] = field(default_factory=lambda: [line(n) for n in (1, 2, 3)])
    journal: Journal = field(default_factory=Journal)
    observed: dict[UUID, Ended] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)

    def found(self) -> set[str]:
        """Return the checks that found something."""
        findings = Findings()
        load = Workload((Schedule(*KEY, Every(1), self.guarantee),))
        evidence = Evidence({KEY: self.rows}, self.attempts, self.lines, stalls=self.stalls)
        since, until = {KEY: NOON}, NOON + 3 * SECOND
        Checker(load, self.journal, evidence, findings, since, until).check_evidence(self.observed)
        return set(findings.counts)


def test_correct_evidence_has_no_findings() -> None:
    assert Case().found() == set()


def drop_row(case: Case) -> None:
    del case.rows[1]
    del case.lines[1]


def add_row(case: Case) -> None:
    case.rows.append(execution(2, id=UUID(int=9), attempt=0, state="SKIPPED"))


def add_unexpected_row(case: Case) -> None:
    at = NOON + 2.5 * SECOND
    case.rows.append(execution(9, scheduled_for=at, attempt=0, state="SKIPPED"))


def wrong_cover(case: Case) -> None:
    case.rows = [execution(3, covers_from=NOON + SECOND, missed_count=1)]
    case.lines = case.lines[2:]


def still_pending(case: Case) -> None:
    case.rows[0] |= {"state": "PENDING", "attempt": 0}
    del case.attempts[UUID(int=1)], case.lines[0]


def dead(case: Case) -> None:
    case.rows[0] |= {"state": "DEAD"}
    case.attempts[UUID(int=1)][0] |= {"outcome": "FAILED"}


def no_effect(case: Case) -> None:
    """The handler returned without logging an effect."""
    case.lines[0] = line(1, "B")


def called_twice(case: Case) -> None:
    case.lines.append(line(2, pid=78))


def called_without_execution(case: Case) -> None:
    case.lines.append(line(8))


def finished_by_another_process(case: Case) -> None:
    case.lines[0] = line(1, pid=78)


def finished_too_early(case: Case) -> None:
    case.attempts[UUID(int=1)][0] |= {"finished_at": NOON + 0.5 * SECOND}


def attempt_missing(case: Case) -> None:
    case.rows[0] |= {"attempt": 2}


def changed_after_its_end(case: Case) -> None:
    was = Ended("DEAD", 1, NOON + 2 * SECOND, None)
    case.observed = {UUID(int=1): was}


def lost_without_a_fault(case: Case) -> None:
    case.rows[0] |= {"attempt": 2, "attempts_allowed": 21, "losses": 1}
    again = attempt(1, attempt=2)
    case.attempts[UUID(int=1)] = [attempt(1, outcome="LOST"), again]
    case.lines.append(line(1, attempt=2))


def blamed_for_a_lost_worker(case: Case) -> None:
    dead(case)
    case.rows[0] |= {"reason_code": "killed_worker", "reason": "3 times"}


def loss_used_up_an_attempt(case: Case) -> None:
    lost_without_a_fault(case)
    case.journal.struck_pids[PID] = NOON
    case.rows[0] |= {"attempts_allowed": 20}


def started_while_suspended(case: Case) -> None:
    case.journal.suspended.append(Span(KEY[0], NOON + 1.5 * SECOND, NOON + 2.5 * SECOND))


@pytest.mark.parametrize(
    ("break_case", "detected"),
    [
        (drop_row, {"lost"}),
        (add_row, {"duplicated", "failed"}),
        (add_unexpected_row, {"unexpected", "failed"}),
        (wrong_cover, {"unexpected"}),
        (still_pending, {"unfinished"}),
        (dead, {"failed"}),
        (no_effect, {"effect", "stale"}),
        (called_twice, {"call"}),
        (called_without_execution, {"call"}),
        (finished_by_another_process, {"stale"}),
        (finished_too_early, {"stale"}),
        (attempt_missing, {"stale"}),
        (changed_after_its_end, {"stale"}),
        (lost_without_a_fault, {"lapsed"}),
        (blamed_for_a_lost_worker, {"failed", "blame"}),
        (loss_used_up_an_attempt, {"blame"}),
        (started_while_suspended, {"suspended"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_defect_is_detected(break_case: Callable[[Case], None], detected: set[str]) -> None:
    case = Case()
    break_case(case)
    assert case.found() == detected


@pytest.mark.parametrize(
    ("code", "kills_workers", "detected"),
    [
        ("killed_worker", False, set()),
        ("killed_worker", True, {"blame"}),
        ("failed", False, {"blame"}),
        ("failed", True, set()),
    ],
)
def test_an_execution_that_kills_its_worker_is_blamed_unless_workers_are_killed_from_outside(
    code: str, *, kills_workers: bool, detected: set[str]
) -> None:
    poison = Schedule("acme", POISON, Every(1), Guarantee.ROW)
    row = execution(1, schedule_name=POISON, state="DEAD", reason_code=code)
    tried = attempt(1, outcome="FAILED")
    evidence, findings = Evidence({poison.key: [row]}, {row["id"]: [tried]}, []), Findings()
    load, since = Workload((poison,)), {poison.key: NOON}
    until = NOON + SECOND
    Checker(load, Journal(), evidence, findings, since, until, kills_workers).check_evidence({})
    assert set(findings.counts) == detected


def test_a_cover_counts_for_all_its_occurrences() -> None:
    cover = execution(3, covers_from=NOON + SECOND, missed_count=2, state="MISSED", attempt=0)
    assert Case(Guarantee.COVERED, [cover], {}, []).found() == set()


def test_a_lease_lost_by_a_struck_worker_or_in_a_bad_time_is_excused() -> None:
    struck, bad = Case(), Case()
    for case in (struck, bad):
        lost_without_a_fault(case)
    struck.journal.struck_pids[PID] = NOON
    bad.journal.bad_times.append((NOON, NOON + 2 * SECOND))
    assert struck.found() == bad.found() == set()


def test_a_repeated_call_is_excused_only_if_its_record_is_lost() -> None:
    case = Case()
    called_twice(case)
    case.journal.gaps.append(Gap(NOON + SECOND, NOON + 3 * SECOND))
    assert case.found() == set()
    assert case.journal.repeats == 1


# The lost attempt ended two seconds after noon.
@pytest.mark.parametrize(
    ("stalls", "detected"),
    [
        ([Stall(PID, NOON + SECOND, 1.0), Stall(PID, NOON + 2 * SECOND, 1.0)], set()),
        ([Stall(PID, NOON + SECOND, 1.0)], {"lapsed"}),
        ([Stall(PID, NOON + 3 * SECOND, 9.0)], {"lapsed"}),
        ([Stall(PID, NOON - 60 * SECOND, 9.0)], {"lapsed"}),
        ([Stall(PID + 1, NOON + SECOND, 9.0)], {"lapsed"}),
    ],
    ids=["long enough", "too short", "afterwards", "long before", "another process"],
)
def test_a_lease_that_lapses_while_the_machine_stalls_its_worker_is_excused(
    stalls: list[Stall], detected: set[str]
) -> None:
    case = Case(stalls=stalls)
    lost_without_a_fault(case)
    assert case.found() == detected


@pytest.mark.parametrize(("effects", "detected"), [(0, {"effect"}), (1, set()), (2, {"effect"})])
def test_a_service_that_honours_the_key_has_one_effect_per_occurrence(
    effects: int, detected: set[str]
) -> None:
    row = execution(1, schedule_name="call")
    evidence = Evidence({HTTP.key: [row]}, {row["id"]: [attempt(1)]}, [])
    evidence.effects_by_key[idempotency_key(row)] = effects
    findings = Findings()
    load, since = Workload((HTTP,)), {HTTP.key: NOON}
    checker = Checker(load, Journal(), evidence, findings, since, NOON + SECOND)
    checker.check_evidence({})
    assert set(findings.counts) == detected
