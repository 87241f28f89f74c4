"""What an outage of the database may not take away, and how soon work continues after it."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from faults.aftermath import check_forgotten, check_reported, check_resumed
from faults.evidence import Evidence, HeldUp, Line
from faults.journal import Findings, Gap, Journal, Life, Outage

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ID, KEY, PID = UUID(int=1), ("acme", "work0"), 77


def acknowledged(outcome: str) -> Evidence:
    """Return an acknowledged success, three seconds after noon, and what is recorded of it."""
    attempt = {"attempt": 1, "outcome": outcome}
    line = Line("A", ID, 1, PID, NOON + 3 * SECOND, KEY, NOON)
    return Evidence({}, {ID: [attempt]}, [line])


def forgotten(evidence: Evidence, *gaps: Gap) -> tuple[int, int]:
    """Return how many successes were looked at, and how many are missing."""
    findings = Findings()
    check_forgotten(Journal(gaps=list(gaps)), evidence, findings)
    return findings.looked["forgotten"], findings.number["forgotten"]


def test_a_success_that_was_acknowledged_and_is_recorded_is_no_finding() -> None:
    assert forgotten(acknowledged("SUCCEEDED")) == (1, 0)


def test_a_success_that_was_acknowledged_and_is_not_recorded_is_a_finding() -> None:
    assert forgotten(acknowledged("LOST")) == (1, 1)


def test_an_asynchronous_failover_excuses_what_was_acknowledged_right_before_it() -> None:
    before, around = Gap(NOON, NOON + 2 * SECOND), Gap(NOON, NOON + 4 * SECOND)
    assert forgotten(acknowledged("LOST"), before) == (1, 1)
    assert forgotten(acknowledged("LOST"), around) == (0, 0)


@pytest.mark.parametrize(
    ("lives_for", "reports", "result"),
    [(3600, True, (1, 0)), (3600, False, (1, 1)), (30, False, (0, 0))],
    ids=["reported", "not reported", "its scheduler ended"],
)
def test_a_success_that_a_failover_has_lost_is_reported_by_a_scheduler_that_outlives_it(
    lives_for: int, *, reports: bool, result: tuple[int, int]
) -> None:
    life = Life(NOON - SECOND, hears=True, until=NOON + lives_for * SECOND)
    journal = Journal(gaps=[Gap(NOON, NOON + 4 * SECOND)], lives={PID: life})
    evidence, findings = acknowledged("LOST"), Findings()
    evidence.reported = {(ID, 1)} if reports else set()
    check_reported(journal, evidence, findings)
    assert (findings.looked["reported"], findings.number["reported"]) == result


OUTAGE = Outage("server stop", NOON, NOON + 5 * SECOND)


def resumed(
    seconds: list[float], *outages: Outage, held_up: tuple[HeldUp, ...] = (), seat: str = "near"
) -> tuple[int, int]:
    """Return how many outages were judged for a scheduler, and after how many it was too late."""
    times = [NOON + second * SECOND for second in seconds]
    progress = defaultdict(list, {seat: times})
    evidence = Evidence({}, {}, [], held_up=list(held_up), progress=progress)
    findings = Findings()
    check_resumed(Journal(outages=list(outages)), evidence, findings)
    return findings.looked["resumed"], findings.number["resumed"]


@pytest.mark.parametrize(
    ("seconds", "found"), [([-1, 6], 0), ([-1, 15], 0), ([-1, 4, 16], 1), ([-1], 1)]
)
def test_a_scheduler_looks_for_work_within_ten_seconds(seconds: list[float], found: int) -> None:
    assert resumed(seconds, OUTAGE) == (1, found)


def test_a_scheduler_that_began_after_the_outage_is_not_judged() -> None:
    assert resumed([6], OUTAGE) == (0, 0)


def test_an_outage_of_one_network_concerns_only_the_scheduler_behind_it() -> None:
    silence = OUTAGE._replace(seat="far")
    assert resumed([-1], silence) == (0, 0)
    assert resumed([-1], silence, seat="far") == (1, 1)


def test_of_two_outages_in_a_row_the_second_is_judged() -> None:
    following = Outage("disk full", NOON + 10 * SECOND, NOON + 12 * SECOND)
    assert resumed([-1, 21], OUTAGE, following) == (1, 0)
    assert resumed([-1, 23], OUTAGE, following) == (1, 1)


def test_the_time_for_which_the_machine_kept_a_scheduler_from_running_is_added() -> None:
    assert resumed([-1, 17], OUTAGE, held_up=(HeldUp(PID, NOON + 9 * SECOND, 3.0),)) == (1, 0)
