"""The planned executions of a cursor, case by case. No database: values in, values out."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tenantcron.core.durations import format_duration
from tenantcron.core.names import TenantId
from tenantcron.cron.occurrences import next_occurrence
from tenantcron.cron.parse import parse
from tenantcron.cron.zones import zone
from tenantcron.provider.static_settings import DEFAULTS as DEFINITION
from tenantcron.scheduler.steps.due import DueOccurrences, PlannedExecution, due, spread_offset
from tenantcron.schedules.execution_reasons import reason_text
from tenantcron.schedules.settings import CatchUp, Overlap, ScheduleSettings, read_settings
from tenantcron.store.rows.executions import State
from tenantcron.store.steps.firing import DueCursor

DAY = datetime(2026, 12, 1, tzinfo=UTC)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NO_WAIT = timedelta(0)
CATCH_UP, ON_TIME = "catch-up", "cron-scheduler"
GIVEN_UP = "no scheduler started it in time (longer ago than catch_up_window)"
NOT_CAUGHT_UP = "no scheduler started it in time (catch_up is none)"


def at(text: str) -> datetime:
    """Return a time of the day; `09:00+1` is of the next one."""
    clock, _, days = text.partition("+")
    time = datetime.strptime(clock, "%H:%M:%S" if clock.count(":") > 1 else "%H:%M")  # noqa: DTZ007 -- only its clock is used
    return DAY + timedelta(
        days=int(days or 0), hours=time.hour, minutes=time.minute, seconds=time.second
    )


def cursor(
    next_run_at: datetime,
    cron: str = "0 * * * *",
    timezone: str = "UTC",
    *,
    paused: bool = False,
    reason: str | None = "partner is down",
    until: datetime | None = None,
) -> DueCursor:
    return DueCursor(
        schedule_id=UUID("00000000-0000-4000-8000-00000000002a"),
        tenant_id=TenantId("acme"),
        schedule_name="nightly",
        saga_name="nightly",
        cron_expr=cron,
        timezone=timezone,
        definition_id=UUID(int=1),
        next_run_at=next_run_at,
        paused_at=LONG_AGO if paused else None,
        paused_by="maria",
        paused_reason=reason if paused else None,
        paused_until=until,
    )


def settings_with(**values: timedelta | str) -> ScheduleSettings:
    definition = {
        name: format_duration(value) if isinstance(value, timedelta) else value
        for name, value in values.items()
    }
    return read_settings({**DEFINITION, **definition})


def planned_for(
    of: DueCursor, now: datetime, oldest: datetime = LONG_AGO, **settings: timedelta | str
) -> DueOccurrences:
    return due(of, settings_with(**settings), now, oldest)


def summary(planned: PlannedExecution) -> tuple[object, ...]:
    """Return the distinctive values of a row, with times of the day as text."""
    covers = None if planned.covers_from is None else f"{planned.covers_from:%H:%M}"
    return (
        f"{planned.scheduled_for:%H:%M}",
        planned.state.value,
        reason_text(planned.reason_code, planned.detail),
        planned.source,
        covers,
        planned.missed_count,
    )


@dataclass(frozen=True, slots=True)
class Case:
    """An hourly schedule whose cursor is at `since`, evaluated at `now`."""

    name: str
    now: str
    rows: list[tuple[object, ...]]
    since: str = "09:00"
    catch_up: CatchUp = CatchUp.ONCE
    window: timedelta = timedelta(hours=1)
    paused: bool = False
    until: str | None = None
    moves_to: str = "10:00"


def pending(
    time: str, source: str = ON_TIME, since: str | None = None, missed: int = 0
) -> tuple[object, ...]:
    return (time, "PENDING", None, source, since, missed)


def missed(time: str, reason: str, since: str | None = None, more: int = 0) -> tuple[object, ...]:
    return (time, "MISSED", reason, ON_TIME, since, more)


def skipped(time: str, since: str | None = None, more: int = 0) -> tuple[object, ...]:
    return (time, "SKIPPED", "paused: partner is down", ON_TIME, since, more)


CASES = [
    Case("at the very moment", "09:00", [pending("09:00")]),
    Case("a minute late is on time", "09:01", [pending("09:00")]),
    Case("a second more is late", "09:01:01", [pending("09:00", CATCH_UP)]),
    Case(
        "a second more is late, and none starts nothing",
        "09:01:01",
        [missed("09:00", NOT_CAUGHT_UP)],
        catch_up=CatchUp.NONE,
    ),
    Case("none starts what is on time", "09:01", [pending("09:00")], catch_up=CatchUp.NONE),
    Case("as old as the window", "10:00", [pending("10:00", since="09:00", missed=1)]),
    Case("just inside the window", "09:59", [pending("09:00", CATCH_UP)]),
    Case(
        "at the edge of a window of 30 minutes",
        "09:30",
        [pending("09:00", CATCH_UP)],
        window=timedelta(minutes=30),
    ),
    Case(
        "a second past the window",
        "09:30:01",
        [missed("09:00", GIVEN_UP)],
        window=timedelta(minutes=30),
    ),
    Case(
        "once: the latest covers those within the window, and one row those before",
        "12:30",
        [missed("11:00", GIVEN_UP, "09:00", 2), pending("12:00", CATCH_UP)],
        moves_to="13:00",
    ),
    Case(
        "once with a long window: one start for all",
        "12:30",
        [pending("12:00", CATCH_UP, "09:00", 3)],
        window=timedelta(hours=4),
        moves_to="13:00",
    ),
    Case(
        "once: the one on time covers the late ones, and is on time",
        "12:00",
        [pending("12:00", ON_TIME, "09:00", 3)],
        window=timedelta(hours=4),
        moves_to="13:00",
    ),
    Case(
        "all: each inside the window starts",
        "12:00:30",
        [
            missed("09:00", GIVEN_UP),
            pending("10:00", CATCH_UP),
            pending("11:00", CATCH_UP),
            pending("12:00"),
        ],
        catch_up=CatchUp.ALL,
        window=timedelta(hours=2, minutes=30),
        moves_to="13:00",
    ),
    Case(
        "none: one row for all that is late, and the one on time starts",
        "12:00",
        [missed("11:00", NOT_CAUGHT_UP, "09:00", 2), pending("12:00")],
        catch_up=CatchUp.NONE,
        moves_to="13:00",
    ),
    Case(
        "paused: one row for all",
        "12:00",
        [skipped("12:00", "09:00", 3)],
        paused=True,
        moves_to="13:00",
    ),
    Case("paused: one row for one", "09:00", [skipped("09:00")], paused=True),
    Case("a pause that ends later", "09:00", [skipped("09:00")], paused=True, until="09:00:01"),
    Case("a pause that ends now", "09:00", [pending("09:00")], paused=True, until="09:00"),
    Case("a pause that has ended", "09:00", [pending("09:00")], paused=True, until="08:00"),
    Case(
        "a pause that ended in the middle of a downtime",
        "12:30",
        [skipped("10:00", "09:00", 1), missed("11:00", GIVEN_UP), pending("12:00", CATCH_UP)],
        paused=True,
        until="10:30",
        moves_to="13:00",
    ),
    Case(
        "a pause that ended in the middle, with all",
        "11:30",
        [skipped("09:00"), pending("10:00", CATCH_UP), pending("11:00", CATCH_UP)],
        paused=True,
        until="10:00",
        catch_up=CatchUp.ALL,
        window=timedelta(hours=3),
        moves_to="12:00",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_hourly_schedule(case: Case) -> None:
    of = cursor(at(case.since), paused=case.paused, until=at(case.until) if case.until else None)

    found = planned_for(of, at(case.now), catch_up=case.catch_up, catch_up_window=case.window)

    assert [summary(row) for row in found.planned] == case.rows
    moves_to = "11:00" if case.name == "as old as the window" else case.moves_to
    assert found.next_run_at == at(moves_to)
    assert found.last_run_at == at(moves_to) - timedelta(hours=1)


def test_a_pause_without_a_reason_is_recorded_as_paused() -> None:
    found = planned_for(cursor(at("09:00"), paused=True, reason=None), at("09:00"))

    assert summary(found.planned[0])[2] == "paused"


def test_a_one_time_schedule_starts_once_and_has_no_next_occurrence() -> None:
    found = planned_for(cursor(at("09:00"), "@at 2026-12-01T09:00:00Z"), at("09:00:10"))

    assert [summary(row) for row in found.planned] == [pending("09:00")]
    assert (found.last_run_at, found.next_run_at) == (at("09:00"), None)


def test_a_one_time_schedule_missed_for_too_long_is_recorded_as_missed() -> None:
    found = planned_for(cursor(at("09:00"), "@at 2026-12-01T09:00:00Z"), at("11:00"))

    assert [summary(row) for row in found.planned] == [missed("09:00", GIVEN_UP)]
    assert found.next_run_at is None


@pytest.mark.parametrize(
    ("cron", "first", "now", "rows"),
    [
        # London, 28 March 2027: 01:00 to 02:00 is skipped.
        ("30 1 * * *", datetime(2027, 3, 28, 1, tzinfo=UTC), None, ["01:00"]),
        ("30 * * * *", datetime(2027, 3, 28, 0, 30, tzinfo=UTC), (2, 30), ["00:30", "01:30"]),
        # London, 25 October 2026: 01:00 to 02:00 comes twice.
        ("30 1 * * *", datetime(2026, 10, 25, 0, 30, tzinfo=UTC), (3, 0), ["00:30"]),
        ("30 * * * *", datetime(2026, 10, 25, 0, 30, tzinfo=UTC), (1, 30), ["00:30", "01:30"]),
    ],
)
def test_on_days_with_a_dst_change(
    cron: str, first: datetime, now: tuple[int, int] | None, rows: list[str]
) -> None:
    end = first if now is None else first.replace(hour=now[0], minute=now[1])
    of = cursor(first, cron, "Europe/London")

    found = planned_for(of, end, catch_up=CatchUp.ALL, catch_up_window=timedelta(days=1))

    times = [f"{row.scheduled_for:%H:%M}" for row in found.planned]
    assert times[: len(rows)] == rows
    assert found.next_run_at is not None
    assert found.next_run_at > end


def test_spread_moves_the_start_and_never_the_nominal_time() -> None:
    of = cursor(at("09:00"))
    offset = spread_offset(of.schedule_id, timedelta(minutes=10))

    (planned,) = planned_for(of, at("09:00"), spread=timedelta(minutes=10)).planned

    assert NO_WAIT < offset < timedelta(minutes=10)
    assert planned.scheduled_for == at("09:00")
    assert planned.not_before == planned.start_deadline == at("09:00") + offset


def test_spread_uses_its_full_range_with_a_constant_offset_per_schedule() -> None:
    spread = timedelta(seconds=10)
    ids = [UUID(int=number) for number in range(1000)]

    offsets = {schedule_id: spread_offset(schedule_id, spread) for schedule_id in ids}

    assert set(offsets.values()) == {timedelta(seconds=second) for second in range(10)}
    assert offsets == {schedule_id: spread_offset(schedule_id, spread) for schedule_id in ids}
    assert spread_offset(ids[7], NO_WAIT) == NO_WAIT


@pytest.mark.parametrize(
    ("settings", "deadline"),
    [
        ({}, "09:00"),
        ({"start_within": timedelta(minutes=5)}, "09:05"),
        ({"overlap": Overlap.ALLOW}, "09:00"),
        ({"overlap": Overlap.QUEUE}, None),
        ({"overlap": Overlap.CANCEL_RUNNING}, None),
        ({"overlap": Overlap.QUEUE, "start_within": timedelta(minutes=5)}, "09:05"),
        ({"overlap": Overlap.CANCEL_RUNNING, "start_within": timedelta(minutes=5)}, "09:05"),
    ],
)
def test_the_start_deadline_of_an_occurrence_on_time(
    settings: dict[str, Any], deadline: str | None
) -> None:
    (planned,) = planned_for(cursor(at("09:00")), at("09:00:20"), **settings).planned

    assert planned.start_deadline == (None if deadline is None else at(deadline))


@pytest.mark.parametrize("overlap", list(Overlap))
def test_a_catch_up_may_wait_as_long_as_its_window(overlap: Overlap) -> None:
    (planned,) = planned_for(cursor(at("09:00")), at("09:20"), overlap=overlap).planned

    assert planned.start_deadline == at("10:20")


@pytest.mark.parametrize(
    ("settings", "deadline"),
    [
        ({}, "10:45:20"),
        ({"start_within": timedelta(hours=2)}, "11:45"),
        ({"overlap": Overlap.QUEUE}, None),
    ],
)
def test_an_occurrence_on_time_that_covers_missed_ones_may_wait_as_long_as_they(
    settings: dict[str, Any], deadline: str | None
) -> None:
    of = cursor(at("09:00"), "*/15 * * * *")

    (planned,) = planned_for(of, at("09:45:20"), **settings).planned

    assert (planned.scheduled_for, planned.source) == (at("09:45"), ON_TIME)
    assert planned.missed_count == 3
    assert planned.start_deadline == (None if deadline is None else at(deadline))


def test_the_window_of_a_catch_up_counts_from_its_spread_start() -> None:
    spread = timedelta(hours=2)
    of = cursor(at("09:00"))

    (planned,) = planned_for(of, at("09:02"), spread=spread).planned

    assert planned.not_before > at("09:02")
    assert planned.start_deadline == planned.not_before + timedelta(hours=1)


def test_occurrences_before_the_retained_history_are_neither_planned_nor_counted() -> None:
    of = cursor(datetime(1000, 1, 1, tzinfo=UTC), "* * * * *")

    found = planned_for(of, at("09:00:30"), oldest=at("08:30"))

    assert [summary(row) for row in found.planned] == [pending("09:00", since="08:30", missed=30)]
    assert found.steps == 31


def test_a_one_time_schedule_before_the_retained_history_never_fires() -> None:
    of = cursor(DAY - timedelta(days=300), "@at 2026-02-04T00:00:00Z")

    found = planned_for(of, at("09:00"), oldest=DAY - timedelta(days=90))

    assert found == DueOccurrences((), of.next_run_at, None, 0)


def test_thousands_of_missed_occurrences_give_one_start() -> None:
    week_ago = DAY - timedelta(days=7)

    found = planned_for(cursor(week_ago, "* * * * *"), DAY)

    assert found.steps == 7 * 24 * 60 + 1
    assert [(row.state, row.missed_count) for row in found.planned] == [
        (State.MISSED, 7 * 24 * 60 - 61),
        (State.PENDING, 60),
    ]


CRONS = [
    "*/15 * * * *",
    "0 * * * *",
    "30 1 * * *",
    "0 2 29 2 *",
    "59 23 L * *",
    "@every 45m",
    "0,30 1-3 * * sun",
]
ZONES = ["UTC", "Europe/London", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"]
MOMENTS = st.integers(0, 3 * 365 * 24 * 60 - 1).map(lambda n: DAY + timedelta(minutes=n - 300_000))


@hypothesis_settings(max_examples=150)
@given(
    cron=st.sampled_from(CRONS),
    place=st.sampled_from(ZONES),
    begin=MOMENTS,
    length=st.timedeltas(timedelta(0), timedelta(days=9)),
    catch_up=st.sampled_from(list(CatchUp)),
    window=st.sampled_from([NO_WAIT, timedelta(hours=1), timedelta(days=2), timedelta(days=30)]),
    pause=st.one_of(st.none(), st.just(""), st.timedeltas(timedelta(days=-1), timedelta(days=9))),
    spread=st.sampled_from([NO_WAIT, timedelta(minutes=10)]),
)
def test_every_occurrence_is_a_row_or_in_exactly_one_cover(  # noqa: PLR0917 -- all that may differ
    cron: str,
    place: str,
    begin: datetime,
    length: timedelta,
    catch_up: CatchUp,
    window: timedelta,
    pause: timedelta | str | None,
    spread: timedelta,
) -> None:
    first = next_occurrence(parse(cron), zone(place), begin)
    assert first is not None
    now = first + length
    until = begin + pause if isinstance(pause, timedelta) else None
    of = cursor(first, cron, place, paused=pause is not None, until=until)
    settings = settings_with(catch_up=catch_up, catch_up_window=window, spread=spread)
    expected = [first]
    while (following := next_occurrence(parse(cron), zone(place), expected[-1])) <= now:  # type: ignore[operator] # these have no end
        expected.append(following)  # type: ignore[arg-type] # as above

    found = due(of, settings, now, LONG_AGO)

    covered = []
    for row in found.planned:
        since = row.covers_from or row.scheduled_for
        inside = [time for time in expected if since <= time <= row.scheduled_for]
        assert len(inside) == row.missed_count + 1
        assert (row.covers_from is None) == (row.missed_count == 0)
        assert row.not_before >= row.scheduled_for
        covered += inside
    assert covered == expected
    assert found.last_run_at == expected[-1]
    assert found.next_run_at == following
    assert found.steps == len(expected)
