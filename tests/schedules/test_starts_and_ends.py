"""`starts` and `ends`: no occurrence before the one, and none at or after the other."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from support.cursors import cursor, utc
from support.fleet import Fleet, manifest
from support.manifests import check_data, check_scheduled, codes, only_schedule
from support.scheduling import NOON, Scheduling

from tenantcron.cli.main import main
from tenantcron.core.errors import UsageError
from tenantcron.core.schedule_refs import schedule_ref
from tenantcron.core.settings import Settings
from tenantcron.core.values import JsonValue
from tenantcron.provider.refresh import refresh
from tenantcron.provider.static_settings import read_entries
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.outcome import Status, registered
from tenantcron.scheduler.inspect.schedule_status import read_schedule_status
from tenantcron.scheduler.inspect.why import explain
from tenantcron.schedules.timetable import with_bounds, zoned_timetable
from tenantcron.service.responses.schedules import schedule_status_as_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.schedule_cursors import SharedTimetable
from tenantcron.web.forecast_charts import compute_load
from tenantcron.web.words import timetable_in_words

DAILY: dict[str, JsonValue] = {"cron": "0 2 * * *"}
BOUNDED: dict[str, JsonValue] = {**DAILY, "starts": "2026-12-01", "ends": "2026-12-03"}
STORED = "0 2 * * * 2026-12-01/2026-12-03"
YAML = 'cron: "0 2 * * *", starts: 2026-12-01, ends: 2026-12-03'
# Far ahead of any clock that these tests may run at.
AHEAD = 'cron: "0 2 * * *", starts: 2098-12-01, ends: 2098-12-03'
AFTERNOON = "0 * * * * 2026-12-01T14:00/2026-12-01T16:00"


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    """An empty folder of manifests for the test's database."""
    return Fleet(database, tmp_path)


@pytest.fixture
async def scheduling(database: Database, tmp_path: Path) -> Scheduling:
    """An empty database at noon on the first of December 2026."""
    scheduling = Scheduling(database, Settings(folder=tmp_path))
    await scheduling.prepare()
    return scheduling


def occurrences(cron_expr: str, timezone: str = "UTC") -> list[datetime]:
    return list(islice(zoned_timetable(cron_expr, timezone).upcoming(utc(2026, 11, 1)), 4))


@pytest.mark.parametrize(
    ("starts", "ends", "stored"),
    [
        ("2026-12-01", "2026-12-03", "2026-12-01/2026-12-03"),
        ("2026-12-01T00:00:00", None, "2026-12-01/.."),
        (None, "2026-12-03T09:30:00", "../2026-12-03T09:30"),
        ("2026-12-01T09:30:15", None, "2026-12-01T09:30:15/.."),
        (None, "2026-12-03 09:30", "../2026-12-03T09:30"),
    ],
)
def test_bounds_are_stored_with_the_timetable_in_one_form(
    starts: str | None, ends: str | None, stored: str
) -> None:
    given = {"starts": starts, "ends": ends}
    scheduled = {**DAILY, **{key: text for key, text in given.items() if text}}

    assert only_schedule(check_scheduled(scheduled)).timing.cron == f"0 2 * * * {stored}"


def test_the_start_is_included_and_the_end_is_not() -> None:
    at_two = "0 2 * * * 2026-12-01T02:00/2026-12-03T02:00"

    assert occurrences(at_two) == [utc(2026, 12, 1, 2), utc(2026, 12, 2, 2)]
    assert occurrences("@every 12h ../2026-11-02") == [utc(2026, 11, 1, 12)]


def test_a_date_is_midnight_in_the_zone_of_the_schedule() -> None:
    assert occurrences("0 0 * * * 2026-12-01/..", "Asia/Tokyo")[0] == utc(2026, 11, 30, 15)
    # The clocks of Santiago skip this midnight: the day begins at 01:00.
    assert occurrences("@every 30m 2027-09-05/..", "America/Santiago")[0] == utc(2027, 9, 5, 4)


@pytest.mark.parametrize(
    ("edit", "code", "key", "message"),
    [
        ({"starts": "soon"}, "TC106", "starts", "`starts` must be a date"),
        ({"starts": "2026-02-30"}, "TC106", "starts", "`starts` must be a date"),
        ({"ends": "2026-12-01T25:00"}, "TC106", "ends", "`ends` must be a date"),
        ({"ends": "2026-12-01T09:00Z"}, "TC106", "ends", "`ends` must be a date"),
        ({"ends": 2026}, "TC103", "ends", "`ends` must be a date"),
        ({"starts": "2026-12-03"}, "TC305", "ends", "`ends` is not after `starts`"),
        ({"starts": "2026-12-04"}, "TC305", "ends", "`ends` is not after `starts`"),
        ({"starts": "2026-11-01", "ends": "2026-11-16"}, "TC208", "ends", "00:00 UTC has passed"),
        ({"starts": "2026-12-02T03:00"}, "TC208", "ends", "comes before any occurrence"),
    ],
)
def test_a_mistake_is_reported_at_its_key(
    edit: dict[str, JsonValue], code: str, key: str, message: str
) -> None:
    (problem,) = check_scheduled({**BOUNDED, **edit}).problems

    assert (problem.code, problem.pointer[-1]) == (code, key)
    assert message in problem.message


def test_a_timetable_that_is_too_long_with_its_bounds_is_refused() -> None:
    long: dict[str, JsonValue] = {"cron": "0 " + ",".join(map(str, range(19))) + " * * *"}
    assert codes(check_scheduled(long)) == []
    assert codes(check_scheduled({**long, "starts": "2026-12-01"})) == ["TC209"]


def test_a_preset_hands_down_its_bounds_and_a_schedule_replaces_each() -> None:
    own: JsonValue = {"preset": "season", "name": "b", "ends": "2027-01-01"}
    checked = check_data(
        {
            "tenant": "acme",
            "schedules": {"season": BOUNDED},
            "sagas": [
                {"name": "a", "trigger": "scheduled:season"},
                {"name": "b", "trigger": {"scheduled": own}},
            ],
        }
    )
    assert checked.desired is not None, checked.problems
    assert {schedule.saga: schedule.timing.cron for schedule in checked.desired.schedules} == {
        "a": STORED,
        "b": "0 2 * * * 2026-12-01/2027-01-01",
    }


def test_next_shows_occurrences_within_the_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text(manifest("acme", {"nightly": YAML}), encoding="utf-8")

    assert main(["next", "--manifest", str(file), "--after", "2026-11-16T00:00Z"]) == 0

    period = "starts on Tue 2026-12-01 00:00 UTC and ends on Thu 2026-12-03 00:00 UTC"
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"  nightly  {STORED} in UTC, {period}",
        "    Tue 2026-12-01 02:00 UTC  in 15 d 2 h",
        "    Wed 2026-12-02 02:00 UTC  in 16 d 2 h",
    ]


def test_a_static_schedule_has_the_same_bounds() -> None:
    entry = {"tenant": "acme", "name": "nightly", "saga": "report", **BOUNDED}
    (read,) = read_entries([entry])
    assert read.definition.cron_expr == STORED
    assert not {"starts", "ends"} & read.definition.definition.keys()

    with pytest.raises(UsageError, match="`ends` is not after `starts`"):
        read_entries([{**entry, "ends": "2026-11-01"}])
    with pytest.raises(UsageError, match="`ends` must be a date"):
        read_entries([{**entry, "ends": "later"}])


async def test_an_apply_previews_and_schedules_only_what_lies_within_the_bounds(
    fleet: Fleet, database_url: str
) -> None:
    fleet.write("acme", {"nightly": AHEAD})

    (applied,) = await fleet.apply()
    await refresh(fleet.database, TenantScheduleProvider())

    assert applied.plan is not None
    (schedule,) = registered(applied.plan, datetime.now(UTC))
    assert schedule.next_executions == (utc(2098, 12, 1, 2), utc(2098, 12, 2, 2))
    assert cursor(database_url)["next_run_at"] == utc(2098, 12, 1, 2)
    (planned,) = await fleet.plan()
    assert planned.status is Status.UNCHANGED


@pytest.mark.parametrize("edit", ["starts: 2020-01-01", "ends: 2098-12-03", "enabled: true"])
async def test_an_edit_of_the_bounds_fires_nothing_of_the_past(
    fleet: Fleet, database_url: str, edit: str
) -> None:
    fleet.write("acme", {"nightly": 'cron: "0 2 * * *", ends: 2020-01-01'})
    await fleet.apply()
    await refresh(fleet.database, TenantScheduleProvider())
    assert cursor(database_url)["next_run_at"] is None

    fleet.write("acme", {"nightly": f'cron: "0 2 * * *", {edit}'})
    await fleet.apply()
    await refresh(fleet.database, TenantScheduleProvider())

    row = cursor(database_url)
    assert row["next_run_at"] > row["effective_from"]
    assert row["next_run_at"] - row["effective_from"] <= timedelta(days=1)


async def test_occurrences_fire_from_the_start_on_and_end_before_the_end(
    scheduling: Scheduling,
) -> None:
    schedule = await scheduling.schedule(cron=AFTERNOON)
    for _ in range(5):
        scheduling.clock.advance(hours=1)
        await scheduling.fire()

    assert [row["scheduled_for"] for row in await scheduling.rows()] == [
        utc(2026, 12, 1, 14),
        utc(2026, 12, 1, 15),
    ]
    assert (await scheduling.cursor(schedule))["next_run_at"] is None


async def test_what_was_missed_within_the_bounds_is_caught_up_after_the_end(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(cron=AFTERNOON, catch_up="all", catch_up_window="1d")
    scheduling.clock.advance(hours=9)

    await scheduling.fire()

    assert [(row["scheduled_for"], row["state"]) for row in await scheduling.rows()] == [
        (utc(2026, 12, 1, 14), "PENDING"),
        (utc(2026, 12, 1, 15), "PENDING"),
    ]


async def test_status_says_when_a_schedule_starts_ends_and_ended(scheduling: Scheduling) -> None:
    await scheduling.schedule(cron=AFTERNOON)
    ref, lease = schedule_ref("acme/nightly"), timedelta(minutes=1)

    async def reason() -> str:
        async with scheduling.database.transaction() as connection:
            status = await read_schedule_status(connection, ref, lease, scheduling.clock())
        answered = schedule_status_as_json(status)
        bounds = (answered["cron"], answered["starts"], answered["ends"])
        assert with_bounds(*bounds) == AFTERNOON
        ahead.append(len(answered["next_executions"]))
        return explain(status)[-1].message

    ahead: list[int] = []
    start, end = "Tue 2026-12-01 14:00 UTC", "Tue 2026-12-01 16:00 UTC"
    assert (await reason()).endswith(f"It starts on {start} and ends on {end}.")
    scheduling.clock.advance(hours=2)
    assert (await reason()).endswith(f"It ends on {end}.")
    scheduling.clock.advance(hours=2)
    assert (await reason()).endswith(f"It ended on {end}.")
    assert ahead == [2, 1, 0]


def test_the_dashboard_counts_and_words_a_bounded_timetable() -> None:
    shared = SharedTimetable("@every 1h 2026-12-01T14:00/2026-12-01T16:00", "UTC", 1)

    assert compute_load([shared], NOON, limit=20).total == 2
    assert timetable_in_words(STORED) == timetable_in_words("0 2 * * *")
