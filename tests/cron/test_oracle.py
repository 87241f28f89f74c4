"""Occurrences around transitions, compared with a walk minute by minute."""

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta
from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st
from support.cron_expressions import Meaning, meanings
from support.cron_walks import WINDOWS, Window, expected_occurrences, walk

from tenantcron.cron.occurrences import next_occurrence, previous_occurrence, upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone

MICROSECOND = timedelta(microseconds=1)


def occurrences_in(meaning: Meaning, window: Window) -> list[datetime]:
    """Return all occurrences of the window, walking forwards."""
    found = upcoming(parse(meaning.text), zone(window.zone), window.begin - MICROSECOND)
    return list(takewhile(lambda instant: instant <= window.end, found))


def occurrences_backwards(meaning: Meaning, window: Window) -> list[datetime]:
    """Return all occurrences of the window, walking backwards."""
    timetable, clock = parse(meaning.text), zone(window.zone)
    found = []
    instant = previous_occurrence(timetable, clock, window.end + MICROSECOND)
    while instant is not None and instant >= window.begin:
        found.append(instant)
        instant = previous_occurrence(timetable, clock, instant)
    return found[::-1]


def test_every_window_holds_a_transition() -> None:
    for window in WINDOWS:
        taken = walk(window)
        walls = [wall for _, wall in taken.shown]
        assert taken.skipped or len(set(walls)) < len(walls), window


@settings(max_examples=200)
@given(meaning=meanings(), window=st.sampled_from(WINDOWS))
def test_forwards_and_backwards_yield_exactly_the_occurrences_of_the_walk(
    meaning: Meaning, window: Window
) -> None:
    expected = expected_occurrences(meaning, window)
    assert occurrences_in(meaning, window) == expected
    assert occurrences_backwards(meaning, window) == expected


@settings(max_examples=300)
@given(
    meaning=meanings(),
    window=st.sampled_from(WINDOWS),
    seconds=st.integers(-3 * 3600, 3 * 3600),
    microseconds=st.sampled_from([0, 0, 1, 500_000, 999_999]),
)
def test_from_any_instant_near_a_transition(
    meaning: Meaning, window: Window, seconds: int, microseconds: int
) -> None:
    instant = window.middle_instant + timedelta(seconds=seconds, microseconds=microseconds)
    instant = min(max(instant, window.begin), window.end)
    expected = expected_occurrences(meaning, window)
    timetable, clock = parse(meaning.text), zone(window.zone)
    later = expected[bisect_right(expected, instant) :]
    earlier = expected[: bisect_left(expected, instant)]
    if later:
        assert next_occurrence(timetable, clock, instant) == later[0]
    if earlier:
        assert previous_occurrence(timetable, clock, instant) == earlier[-1]


@settings(max_examples=500)
@given(
    meaning=meanings(),
    name=st.sampled_from(sorted({window.zone for window in WINDOWS} | {"UTC", "Asia/Kathmandu"})),
    instant=st.datetimes(datetime(1850, 1, 1), datetime(2150, 1, 1)),  # noqa: DTZ001 -- the strategy requires naive ones
)
def test_previous_is_the_inverse_of_next(meaning: Meaning, name: str, instant: datetime) -> None:
    timetable, clock = parse(meaning.text), zone(name)
    moment = instant.replace(tzinfo=zone("UTC"))
    following = next_occurrence(timetable, clock, moment)
    if following is None:
        return
    assert following > moment
    assert next_occurrence(timetable, clock, following - MICROSECOND) == following
    before = previous_occurrence(timetable, clock, following)
    if before is not None:
        assert before <= moment
        assert next_occurrence(timetable, clock, before) == following
