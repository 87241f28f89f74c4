"""The charts of the overview: due and finished executions."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest

from tenantcron.cron.occurrences import upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.rows.execution_history import Outcomes
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.schedule_cursors import SharedTimetable
from tenantcron.web.clock_changes import clock_changes
from tenantcron.web.forecast_charts import (
    DAY,
    MOST_TIMETABLES,
    QUARTER,
    compute_load,
    end_of_day_ahead,
    quarter_of,
    timeline,
)

NOW = datetime(2026, 12, 1, 12, 7, 30, tzinfo=UTC)
SINCE = datetime(2026, 12, 1, 12, tzinfo=UTC)


def test_executions_over_the_limit_are_shown_a_day_ahead() -> None:
    load = compute_load([SharedTimetable("0 2 * * *", "UTC", 30)], NOW, 20)
    tomorrow = datetime(2026, 12, 2, 2, tzinfo=UTC)
    assert [(minute.at, minute.due) for minute in load.overloaded()] == [(tomorrow, 30)]
    assert [bar.title for bar in load.bars() if bar.kind == "over"] == [
        "02:00 to 02:15 UTC: 30 due, 30 in the busiest minute, over the limit of 20"
    ]
    assert load.minutes_over == 1
    assert (load.total, load.schedules, load.omitted) == (30, 30, 0)


def test_executions_at_different_minutes_of_a_quarter_do_not_collide() -> None:
    minutes = [SharedTimetable(f"{minute} 2 * * *", "UTC", 10) for minute in (0, 5, 10)]
    load = compute_load(minutes, NOW, 20)
    assert (max(load.counts), max(load.peaks), load.overloaded()) == (30, 10, [])
    assert [(bar.kind, bar.title) for bar in load.bars()] == [
        ("peak", "02:00 to 02:15 UTC: 30 due, 10 in the busiest minute")
    ]
    assert [hour.counts for hour in load.hours()] == [(30, 10)]


def test_the_bar_of_a_quarter_is_split_at_the_limit() -> None:
    load = compute_load([SharedTimetable("0 2 * * *", "UTC", 30)], NOW, 20)
    within, over = load.bars()
    assert (within.kind, over.kind) == ("peak", "over")
    assert within.y == pytest.approx(load.line)
    assert over.y + over.height == pytest.approx(load.line)
    assert over.y == pytest.approx(0)


@pytest.mark.parametrize(
    "expression", ["@every 7s", "@every 45m", "@every 5s", "*/10 * * * *", "30 1 * * *", "@hourly"]
)
def test_each_quarter_counts_its_occurrences(expression: str) -> None:
    load = compute_load([SharedTimetable(expression, "Europe/London", 1)], NOW, 20)
    begin = datetime(2026, 12, 1, 12, 8, tzinfo=UTC)
    ahead = upcoming(parse(expression), zone("Europe/London"), begin - timedelta(microseconds=1))
    times = list(takewhile(lambda time: time < begin + DAY, ahead))
    expected = Counter((time - SINCE) // QUARTER for time in times)
    assert {index: due for index, due in enumerate(load.counts) if due} == expected
    full_minutes = sum(not time.second for time in times)
    assert sum(load.moments) == full_minutes


@pytest.mark.parametrize("minute", range(25, 50))
def test_a_daily_schedule_is_due_once_in_the_next_24_hours(minute: int) -> None:
    now = datetime(2026, 12, 1, 1, minute, 30, tzinfo=UTC)
    load = compute_load([SharedTimetable("30 1 * * *", "UTC", 1)], now, 20)
    (hour,) = load.hours()
    due = datetime(2026, 12, 1 if minute < 30 else 2, 1, 30, tzinfo=UTC)
    assert (load.total, sum(load.moments), hour.since) == (1, 1, due.replace(minute=0))
    assert now < due < end_of_day_ahead(now)


@pytest.mark.parametrize("minute", [0, 7, 14])
def test_a_day_over_the_limit_has_1440_minutes(minute: int) -> None:
    load = compute_load([SharedTimetable("* * * * *", "UTC", 30)], NOW.replace(minute=minute), 20)
    assert load.minutes_over == 24 * 60


def test_omitted_schedules_are_counted() -> None:
    many = [SharedTimetable(f"@every {900 + n}s", "UTC", 2) for n in range(MOST_TIMETABLES + 3)]
    load = compute_load(many, NOW, 20)
    assert (load.schedules, load.omitted) == (2 * MOST_TIMETABLES, 6)


def test_a_malformed_timetable_does_not_affect_the_others() -> None:
    shared = [SharedTimetable("no cron", "UTC", 1), SharedTimetable("0 2 * * *", "UTC", 1)]
    assert compute_load(shared, NOW, 20).total == 1


def test_the_timeline_has_the_outcomes_of_the_last_day() -> None:
    ago = quarter_of(NOW) - timedelta(hours=3)
    past = timeline([Outcomes(ago, State.DEAD, 2), Outcomes(ago, State.SUCCEEDED, 5)], NOW, 1000)
    assert past.totals[State.DEAD] == 2
    assert [(bar.kind, bar.title) for bar in past.bars()] == [
        ("SUCCEEDED", "09:00 to 09:15 UTC: 5 succeeded"),
        ("DEAD", "09:00 to 09:15 UTC: 2 dead"),
    ]
    assert [(hour.since, hour.counts) for hour in past.hours()] == [(ago, (5, 0, 0, 0, 2))]
    assert not past.is_cut


def test_an_incomplete_timeline_is_marked() -> None:
    assert timeline([Outcomes(quarter_of(NOW), State.DEAD, 1000)], NOW, 1000).is_cut


def test_clock_changes_have_the_occurrences_around_them() -> None:
    spring, autumn = clock_changes(zoned_timetable("30 1 * * *", "Europe/London"), NOW)[:2]
    assert spring.words == "the clock goes forward: 01:00 to 02:00 is skipped"
    assert [f"{occurrence:%F %R %Z}" for occurrence in spring.occurrences] == [
        "2027-03-28 02:00 BST"
    ]
    assert autumn.words == "the clock goes back: 01:00 to 02:00 occurs twice"
    assert [f"{occurrence:%F %R %Z}" for occurrence in autumn.occurrences] == [
        "2027-10-31 01:30 BST"
    ]


def test_a_zone_without_clock_changes_has_none() -> None:
    assert clock_changes(zoned_timetable("30 1 * * *", "Asia/Tokyo"), NOW) == []
