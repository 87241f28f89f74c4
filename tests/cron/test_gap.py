"""The shortest gap: known values, and brute force over 29 years."""

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from support.cron_expressions import Meaning, meanings

from tenantcron.cron.analysis import shortest_gap
from tenantcron.cron.parse import parse

# Every kind of year, each next to every kind that can follow it.
ALL_DAYS = range(date(2001, 1, 1).toordinal(), date(2030, 1, 1).toordinal())


def days(count: int) -> timedelta:
    """Return a number of days."""
    return timedelta(days=count)


def minutes(count: int) -> timedelta:
    """Return a number of minutes."""
    return timedelta(minutes=count)


KNOWN = {
    "* * * * *": minutes(1),
    "*/15 * * * *": minutes(15),
    "*/14 * * * *": minutes(4),
    "*/7 * * * *": minutes(4),
    "0,50 * * * *": minutes(10),
    "0,50 */2 * * *": minutes(50),
    "0,50 0,23 * * *": minutes(10),
    "0,50 0,23 * * 1": minutes(50),
    "0 * * * *": minutes(60),
    "0 */5 * * *": minutes(4 * 60),
    "0 0,12 * * *": minutes(12 * 60),
    "0 1,22 * * *": minutes(3 * 60),
    "0 1,22 */2 * *": minutes(3 * 60),  # the 31st and the 1st are neighbours
    "0 1,22 2-30/2 * *": minutes(21 * 60),
    "59,0 23,0 * * *": minutes(1),
    "59,0 23,0 1,15 * *": minutes(59),
    "59,0 23,0 29,1 2,3 *": minutes(1),  # only where February has a 29th
    "59,0 23,0 28,1 2,3 *": minutes(1),  # only where it has none
    "59,0 23,0 31,1 12,1 *": minutes(1),  # the turn of the year
    "59,0 23,0 31,1 1,12 *": minutes(1),
    "59,0 23,0 30,1 4,6 *": minutes(59),
    "0 0 * * *": days(1),
    "30 12 1 * *": days(28),
    "0 0 31 * *": days(31),
    "0 0 30 * *": days(30),
    "0 0 L * *": days(28),
    "0 0 LW * *": days(28),
    "0 0 L,1 * *": days(1),
    "0 0 L-1 * *": days(28),
    "0 0 15W * *": days(28),
    "0 0 * * 1": days(7),
    "0 0 * * 1,3": days(2),
    "0 0 * * 1#1": days(28),
    "0 0 * * 1#5": days(63),
    "0 0 * * 5L": days(28),
    "0 0 1 * 1": days(1),
    "0 0 * * 1#1,7L": days(1),
    "0 0 1 1,7 *": days(181),
    "59 23 31 12 *": days(365),
    "0 0 1 3 *": days(365),
    "0 0 29 2 *": days(1461),
    "0 0 1-7 1 *": days(1),
    # Monday, 29 February: every 28 years, but 40 or 12 years around 2100, 2200 and 2300.
    "0 0 * 2 1#5": days(4382),
    # The Mondays among 1 and 31 January: 31 January of a leap year and the 1 January after it.
    "0 0 */30 1 1": days(336),
    "@hourly": minutes(60),
    "@yearly": days(365),
    "@every 45m": minutes(45),
    "@every 1s": timedelta(seconds=1),
}


@pytest.mark.parametrize(("text", "gap"), KNOWN.items())
def test_known_gaps(text: str, gap: timedelta) -> None:
    assert shortest_gap(parse(text)) == gap


@pytest.mark.parametrize("text", ["@at 2026-12-01T09:00:00Z", "0 0 30 2 *"])
def test_without_two_occurrences_there_is_no_gap(text: str) -> None:
    assert shortest_gap(parse(text)) is None


def gap_by_brute_force(meaning: Meaning) -> timedelta | None:
    """List all occurrences of 29 years and return the smallest difference."""
    times = sorted(60 * hour + minute for hour in meaning.hours for minute in meaning.minutes)
    matching = [day for day in ALL_DAYS if meaning.matches_day(date.fromordinal(day))]
    within = [later - earlier for earlier, later in pairwise(times)] if matching else []
    overnight = times[0] - times[-1]
    across = [(later - earlier) * 1440 + overnight for earlier, later in pairwise(matching)]
    gaps = within + across
    return minutes(min(gaps)) if gaps else None


@settings(max_examples=80)
@given(meaning=meanings())
def test_equals_the_smallest_difference_of_all_occurrences(meaning: Meaning) -> None:
    brute_force = gap_by_brute_force(meaning)
    # Gaps of more than a year can be shorter around a century than anywhere in these years.
    assume(brute_force is None or brute_force < days(366))
    assert shortest_gap(parse(meaning.text)) == brute_force
