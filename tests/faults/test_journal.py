"""The journal of the harness: limits over time, and times in which all schedulers are excused."""

from datetime import UTC, datetime, timedelta

import pytest

from faults import journal
from faults.journal import Journal, Limits

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """A limit of 40 that was lowered to 4 within a minute, and is being raised to 9."""
    made = Limits()
    for minutes, value, done in ((0, 40, 0), (1, 4, 2), (10, 9, None)):
        begun = NOON + minutes * MINUTE
        monkeypatch.setattr(journal, "now", lambda begun=begun: begun)
        change = made.begin("acme", value)
        change.done = None if done is None else NOON + done * MINUTE
    return made


@pytest.mark.parametrize(
    ("minutes", "expected"), [(-1, None), (0.5, 40), (1.5, 40), (3, 4), (9, 4), (11, 9)]
)
def test_until_a_change_is_confirmed_the_higher_value_may_be_in_force(
    limits: Limits, minutes: float, expected: int | None
) -> None:
    assert limits.highest("acme", NOON + minutes * MINUTE) == expected


def test_a_change_that_may_have_failed_does_not_replace_the_previous_one(limits: Limits) -> None:
    limits.begin("acme", 2)
    assert limits.highest("acme", NOON + 100 * MINUTE) == 9


def test_a_tenant_without_a_change_has_no_limit(limits: Limits) -> None:
    assert limits.highest("brightgrid", NOON + MINUTE) is None


@pytest.mark.parametrize(("since", "until", "bad"), [(-3, -2, False), (-2, 0, True), (2, 3, False)])
def test_a_bad_time_excuses_all_that_overlaps_it(since: float, until: float, bad: bool) -> None:
    made = Journal(bad_times=[(NOON - MINUTE, NOON + MINUTE)])
    assert made.is_bad(NOON + since * MINUTE, NOON + until * MINUTE) is bad
