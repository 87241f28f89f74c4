"""What must survive a database outage, and how soon work continues after it."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from faults.evidence import Evidence, Line, Stall
from faults.journal import Findings, Gap, Journal, Life, Outage
from faults.recovery import check_forgotten, check_reported, check_resumed

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ID, KEY, PID = UUID(int=1), ("acme", "work0"), 77


def acknowledged(outcome: str) -> Evidence:
    """Return a success acknowledged three seconds after noon, with its recorded outcome."""
    attempt = {"attempt": 1, "outcome": outcome}
    line = Line("A", ID, 1, PID, NOON + 3 * SECOND, KEY, NOON)
    return Evidence({}, {ID: [attempt]}, [line])


def forgotten(evidence: Evidence, *gaps: Gap) -> tuple[int, int]:
    """Return how many successes were examined, and how many are missing."""
    findings = Findings()
    check_forgotten(Journal(gaps=list(gaps)), evidence, findings)
    return findings.examined["forgotten"], findings.counts["forgotten"]


def test_a_success_that_was_acknowledged_and_is_recorded_is_accepted() -> None:
    assert forgotten(acknowledged("SUCCEEDED")) == (1, 0)


def test_a_success_that_was_acknowledged_and_is_not_recorded_is_a_finding() -> None:
    assert forgotten(acknowledged("LOST")) == (1, 1)


def test_an_asynchronous_failover_excuses_successes_right_before_it() -> None:
    before, around = Gap(NOON, NOON + 2 * SECOND), Gap(NOON, NOON + 4 * SECOND)
    assert forgotten(acknowledged("LOST"), before) == (1, 1)
    assert forgotten(acknowledged("LOST"), around) == (0, 0)


@pytest.mark.parametrize(
    ("lives_for", "reports", "result"),
    [(3600, True, (1, 0)), (3600, False, (1, 1)), (30, False, (0, 0))],
    ids=["reported", "not reported", "its scheduler ended"],
)
def test_a_success_that_a_failover_has_lost_is_reported_by_a_scheduler_that_survives_it(
    lives_for: int, *, reports: bool, result: tuple[int, int]
) -> None:
    life = Life(NOON - SECOND, is_notified=True, until=NOON + lives_for * SECOND)
    journal = Journal(gaps=[Gap(NOON, NOON + 4 * SECOND)], lives={PID: life})
    evidence, findings = acknowledged("LOST"), Findings()
    evidence.reported = {(ID, 1)} if reports else set()
    check_reported(journal, evidence, findings)
    assert (findings.examined["reported"], findings.counts["reported"]) == result


OUTAGE = Outage("server stop", NOON, NOON + 5 * SECOND)


def resumed(
    seconds: list[float], *outages: Outage, stalls: tuple[Stall, ...] = (), instance: str = "near"
) -> tuple[int, int]:
    """Return how many outages were checked for a scheduler, and after how many it was late."""
    times = [NOON + second * SECOND for second in seconds]
    progress = defaultdict(list, {instance: times})
    evidence = Evidence({}, {}, [], stalls=list(stalls), progress=progress)
    findings = Findings()
    check_resumed(Journal(outages=list(outages)), evidence, findings)
    return findings.examined["resumed"], findings.counts["resumed"]


@pytest.mark.parametrize(
    ("seconds", "found"), [([-1, 6], 0), ([-1, 15], 0), ([-1, 4, 16], 1), ([-1], 1)]
)
def test_a_scheduler_claims_within_ten_seconds(seconds: list[float], found: int) -> None:
    assert resumed(seconds, OUTAGE) == (1, found)


def test_a_scheduler_that_started_after_the_outage_is_not_checked() -> None:
    assert resumed([6], OUTAGE) == (0, 0)


def test_an_outage_of_one_network_affects_only_the_scheduler_behind_it() -> None:
    silence = OUTAGE._replace(instance="far")
    assert resumed([-1], silence) == (0, 0)
    assert resumed([-1], silence, instance="far") == (1, 1)


def test_of_two_consecutive_outages_only_the_second_is_checked() -> None:
    following = Outage("disk full", NOON + 10 * SECOND, NOON + 12 * SECOND)
    assert resumed([-1, 21], OUTAGE, following) == (1, 0)
    assert resumed([-1, 23], OUTAGE, following) == (1, 1)


def test_time_in_which_the_machine_stalled_is_added() -> None:
    assert resumed([-1, 17], OUTAGE, stalls=(Stall(PID, NOON + 9 * SECOND, 3.0),)) == (1, 0)
