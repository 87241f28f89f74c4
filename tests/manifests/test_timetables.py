"""Timetables: the stored form of each, and the platform's rules."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from support.manifests import (
    NOW,
    check,
    check_data,
    check_scheduled,
    codes,
    only_schedule,
    policy_with,
)

from tenantcron.core.values import JsonValue

FLOOR_OF_A_SECOND = policy_with(floor=timedelta(seconds=1))


@dataclass(frozen=True)
class Translation:
    """A timetable of a manifest, and its stored form."""

    declared: dict[str, JsonValue]
    stored: str


TRANSLATIONS = (
    Translation({"cron": "0 2 * * *"}, "0 2 * * *"),
    Translation({"cron": "  0  2\t* * mon-fri "}, "0 2 * * mon-fri"),
    Translation({"cron": "@daily"}, "@daily"),
    Translation({"cron": "@every 45m"}, "@every 45m"),
    Translation({"every": "15m"}, "*/15 * * * *"),
    Translation({"every": "20m"}, "*/20 * * * *"),
    Translation({"every": "30m"}, "*/30 * * * *"),
    Translation({"every": "1800s"}, "*/30 * * * *"),
    Translation({"every": "45m"}, "@every 45m"),
    Translation({"every": "1h"}, "0 * * * *"),
    Translation({"every": "60m"}, "0 * * * *"),
    Translation({"every": "90m"}, "@every 1h30m"),
    Translation({"every": "5h"}, "@every 5h"),
    Translation({"every": "6h"}, "0 */6 * * *"),
    # In local time only if every clock change is a multiple of the interval.
    Translation({"every": "1h", "timezone": "Europe/London"}, "0 * * * *"),
    Translation({"every": "2h", "timezone": "Europe/London"}, "@every 2h"),
    Translation({"every": "24h", "timezone": "Europe/London"}, "@every 1d"),
    Translation({"every": "6h", "timezone": "Asia/Tokyo"}, "0 */6 * * *"),
    Translation({"every": "30m", "timezone": "Australia/Lord_Howe"}, "*/30 * * * *"),
    Translation({"every": "20m", "timezone": "Australia/Lord_Howe"}, "@every 20m"),
    Translation({"every": "2h", "timezone": "Antarctica/Troll"}, "0 */2 * * *"),
    Translation({"every": "12h"}, "0 */12 * * *"),
    Translation({"every": "24h"}, "0 0 * * *"),
    Translation({"every": "1d"}, "0 0 * * *"),
    Translation({"every": "2d"}, "@every 2d"),
    Translation({"every": "7d"}, "@every 7d"),
    Translation({"every": "1m"}, "* * * * *"),
    Translation({"every": "7m"}, "@every 7m"),
    Translation({"every": "30s"}, "@every 30s"),
    Translation({"every": "61s"}, "@every 1m1s"),
    Translation({"daily": {"at": "02:00"}}, "0 2 * * *"),
    Translation({"daily": {"at": "2:05"}}, "5 2 * * *"),
    Translation({"daily": {"at": "23:59"}}, "59 23 * * *"),
    Translation({"weekly": {"on": ["fri", "mon"], "at": "07:30"}}, "30 7 * * 1,5"),
    Translation({"weekly": {"on": ["sun"], "at": "00:00"}}, "0 0 * * 0"),
    Translation({"monthly": {"day": 1, "at": "02:00"}}, "0 2 1 * *"),
    Translation({"monthly": {"day": 31, "at": "02:00"}}, "0 2 31 * *"),
    Translation({"monthly": {"day": 3.0, "at": "02:00"}}, "0 2 3 * *"),
    Translation({"monthly": {"day": "last", "at": "02:00"}}, "0 2 L * *"),
    Translation({"once": "2027-06-01T09:00:00Z"}, "@at 2027-06-01T09:00:00Z"),
    Translation({"once": "2027-06-01T09:00:00+02:00"}, "@at 2027-06-01T07:00:00Z"),
    Translation({"once": "2027-06-01 09:00"}, "@at 2027-06-01T09:00:00Z"),
    Translation(
        {"once": "2027-06-01T09:00:00", "timezone": "Europe/London"}, "@at 2027-06-01T08:00:00Z"
    ),
)


@pytest.mark.parametrize("case", TRANSLATIONS, ids=lambda case: str(case.declared))
def test_every_form_is_stored_as_cron_or_every_or_at(case: Translation) -> None:
    schedule = only_schedule(check_scheduled(dict(case.declared), policy=FLOOR_OF_A_SECOND))
    assert schedule.timing.cron == case.stored


def test_a_skipped_single_time_fires_at_the_first_instant_after_the_gap() -> None:
    scheduled: JsonValue = {"once": "2027-03-28T01:30:00", "timezone": "Europe/London"}
    assert only_schedule(check_scheduled(scheduled)).timing.cron == "@at 2027-03-28T01:00:00Z"


def test_a_repeated_single_time_fires_the_first_time() -> None:
    scheduled: JsonValue = {"once": "2027-10-31T01:30:00", "timezone": "Europe/London"}
    assert only_schedule(check_scheduled(scheduled)).timing.cron == "@at 2027-10-31T00:30:00Z"


@dataclass(frozen=True)
class Judged:
    """A timetable, and the codes of its problems."""

    scheduled: dict[str, JsonValue]
    codes: tuple[str, ...] = ()


JUDGED = (
    Judged({"cron": "*/15 * * * *"}),
    Judged({"every": "15m"}),
    Judged({"cron": "@every 15m"}),
    Judged({"cron": "0,15,30,45 * * * *"}),
    Judged({"cron": "*/14 * * * *"}, ("TC301",)),
    Judged({"cron": "0,50 * * * *"}, ("TC301",)),
    Judged({"cron": "59 23 * * *"}),
    Judged({"cron": "0,59 0,23 * * *"}, ("TC301",)),
    Judged({"every": "899s"}, ("TC301",)),
    Judged({"every": "0s"}, ("TC201",)),
    Judged({"cron": "0 2 30 2 *"}, ("TC202",)),
    Judged({"cron": "* * 31 2 *"}, ("TC202",)),
    Judged({"cron": "0 2 29 2 *"}, ("TC203",)),
    Judged({"cron": "@yearly"}, ("TC203",)),
    Judged({"every": "365d"}, ("TC203",)),
    Judged({"cron": "0 2 1 1,7 *"}),
    Judged({"cron": "0 2 13 * fri"}, ("TC204",)),
    Judged({"cron": "0 2 * * fri"}),
    Judged({"cron": "0 2 13 * ?"}),
    Judged({"cron": "0 2 * *"}, ("TC201",)),
    Judged({"cron": "@reboot"}, ("TC201",)),
    Judged({"cron": ""}, ("TC201",)),
    Judged({"cron": "0 2 * * *\n"}, ("TC201",)),
    Judged({"cron": "0 0 " + "1," * 28 + "1 * *"}, ("TC209",)),
    Judged({"cron": "0 0 " + "1," * 27 + "1 * *"}),
    Judged({"once": "2026-11-16T00:00:00Z"}, ("TC208",)),
    Judged({"once": "2026-11-16T00:00:01Z"}),
    Judged({"once": "0999-01-01T00:00:00Z"}, ("TC208",)),
    Judged({"once": "2027-02-29T00:00:00Z"}, ("TC207",)),
    Judged({"once": "2027-01-01T24:00:00Z"}, ("TC207",)),
    Judged({"once": "2027-01-01"}, ("TC207",)),
    Judged({"once": "2027-01-01T00:00:00Z\n"}, ("TC207",)),
    Judged({"once": "2027-01-01T00:00:00+25:00"}, ("TC207",)),
    Judged({"once": "2027-01-01T00:00:00.5Z"}, ("TC207",)),
    Judged({"once": "tomorrow"}, ("TC207",)),
    Judged({"once": "9999-12-31T23:59:59", "timezone": "America/New_York"}, ("TC207",)),
    Judged({"once": "0001-01-01T00:00:00", "timezone": "Asia/Tokyo"}, ("TC207",)),
    Judged({"daily": {"at": "02:00"}, "timezone": "Europe/London"}),
    Judged({"daily": {"at": "02:00"}, "timezone": "Europe/london"}, ("TC205",)),
    Judged({"daily": {"at": "02:00"}, "timezone": "CEST"}, ("TC205",)),
    Judged({"daily": {"at": "02:00"}, "timezone": "+01:00"}, ("TC205",)),
    Judged({"daily": {"at": "02:00"}, "timezone": "America"}, ("TC205",)),
    Judged({"daily": {"at": "02:00"}, "timezone": "../UTC"}, ("TC205",)),
    Judged({"daily": {"at": "02:00"}, "timezone": ""}, ("TC205",)),
    Judged({"cron": "61 2 * * *", "timezone": "Mars"}, ("TC201", "TC205")),
)


@pytest.mark.parametrize("case", JUDGED, ids=lambda case: str(case.scheduled)[:60])
def test_timetables_are_checked_exactly(case: Judged) -> None:
    assert codes(check_scheduled(dict(case.scheduled))) == list(case.codes)


def test_the_platform_sets_the_minimum_interval() -> None:
    two_hours = policy_with(floor=timedelta(hours=2))
    assert codes(check_scheduled({"every": "2h"}, policy=two_hours)) == []
    assert codes(check_scheduled({"every": "1h"}, policy=two_hours)) == ["TC301"]
    assert codes(check_scheduled({"every": "30s"}, policy=FLOOR_OF_A_SECOND)) == []


def test_a_violated_minimum_interval_is_reported_with_the_gap_and_the_limit() -> None:
    (problem,) = check_scheduled({"cron": "*/14 * * * *"}).problems
    assert problem.message == (
        "the shortest gap of `*/14 * * * *` is 4m; the platform requires at least 15m"
    )
    assert problem.hint == "`every: 15m` is the shortest interval allowed"
    assert problem.pointer == ("sagas", 0, "trigger", "scheduled", "cron")


def test_an_unknown_time_zone_is_reported_with_a_suggestion() -> None:
    (problem,) = check_scheduled({"every": "1h", "timezone": "Europe/Londn"}).problems
    assert (problem.message, problem.hint) == (
        "`Europe/Londn` is not a time zone",
        "did you mean Europe/London?",
    )


def test_the_short_form_is_checked_too() -> None:
    assert codes(check("sagas: [{name: a, trigger: 'scheduled:a:*/5 * * * *'}]")) == ["TC301"]
    assert codes(check("sagas: [{name: a, trigger: 'scheduled:a:nonsense'}]")) == ["TC201"]
    assert codes(check("sagas: [{name: a, trigger: 'scheduled:a:'}]")) == ["TC201"]


def test_a_named_schedule_may_be_only_a_cron_expression() -> None:
    checked = check_data(
        {
            "schedules": {"nightly": "0 2 * * *"},
            "sagas": [{"name": "a", "trigger": "scheduled:nightly"}],
        }
    )
    timing = only_schedule(checked).timing
    assert (timing.cron, timing.timezone) == ("0 2 * * *", "UTC")


def test_an_invalid_named_timetable_is_reported_once_at_its_definition() -> None:
    checked = check_data(
        {
            "schedules": {"nightly": "0 2 * *"},
            "sagas": [
                {"name": "a", "trigger": "scheduled:nightly"},
                {"name": "b", "trigger": {"scheduled": {"preset": "nightly"}}},
            ],
        }
    )
    (problem,) = checked.problems
    assert (problem.code, problem.pointer) == ("TC201", ("schedules", "nightly"))


def test_the_current_time_is_a_parameter() -> None:
    assert codes(check_scheduled({"once": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"})) == ["TC208"]
