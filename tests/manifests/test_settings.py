"""The settings of a schedule: defaults, limits, and inheritance from a named timetable."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from support.manifests import check_data, check_scheduled, codes, only_schedule, policy_with

from tenantcron.core.names import Owner
from tenantcron.core.values import JsonValue
from tenantcron.cron.parse import parse
from tenantcron.manifests.language.schemas import defaults
from tenantcron.schedules.schedule import Timing
from tenantcron.schedules.settings import (
    CatchUp,
    Overlap,
    Priority,
    RetryPolicy,
    ScheduleSettings,
    write_settings,
)

DEFAULTS = ScheduleSettings(
    description="",
    enabled=True,
    spread=timedelta(0),
    overlap=Overlap.SKIP,
    catch_up=CatchUp.ONCE,
    catch_up_window=timedelta(hours=1),
    start_within=timedelta(0),
    timeout=timedelta(minutes=5),
    retry=RetryPolicy(3, timedelta(seconds=1), timedelta(seconds=60)),
    auto_pause_after=10,
    priority=Priority.MEDIUM,
    payload={},
)
FULL: dict[str, JsonValue] = {
    "description": "Invoices",
    "enabled": False,
    "spread": "10m",
    "overlap": "cancel_running",
    "catch_up": "all",
    "catch_up_window": "2d",
    "start_within": "30s",
    "timeout": "45m",
    "retry": {"max_attempts": 5, "backoff": "2s", "max_backoff": "1m30s"},
    "auto_pause_after": 0,
    "priority": "critical",
    "owner": "user:maria",
    "payload": {"report": "monthly", "depth": [1, 2.5, None, True]},
}


def test_a_schedule_without_settings_has_the_documented_defaults() -> None:
    schedule = only_schedule(check_scheduled({"every": "1h"}))
    assert schedule.timing.settings == DEFAULTS
    assert schedule.timing.timezone == "UTC"
    assert (schedule.name, schedule.saga, schedule.target) == ("reconcile", "reconcile", None)


def test_every_setting_can_be_set() -> None:
    settings = only_schedule(check_scheduled({"every": "1h", **FULL})).timing.settings
    assert settings == ScheduleSettings(
        description="Invoices",
        enabled=False,
        spread=timedelta(minutes=10),
        overlap=Overlap.CANCEL_RUNNING,
        catch_up=CatchUp.ALL,
        catch_up_window=timedelta(days=2),
        start_within=timedelta(seconds=30),
        timeout=timedelta(minutes=45),
        retry=RetryPolicy(5, timedelta(seconds=2), timedelta(seconds=90)),
        auto_pause_after=0,
        priority=Priority.CRITICAL,
        payload={"report": "monthly", "depth": [1, 2.5, None, True]},
        owner=Owner("user:maria"),
    )


@pytest.mark.parametrize(
    "owner",
    [
        "user:m",
        "user:maria@acme.example",
        "user:auth0|5f7c8ec7c33c6c004bbafe82",
        "user:" + "x" * 128,
    ],
)
def test_an_owner_is_a_user_and_an_id(owner: str) -> None:
    schedule = only_schedule(check_scheduled({"every": "1h", "owner": owner}))
    assert schedule.timing.settings.owner == owner


@pytest.mark.parametrize(
    "owner",
    [
        "maria",
        "user:",
        "user: maria",
        "user:maria\n",
        "team:ops",
        "user:" + "x" * 129,
        "user:mária",
    ],
)
def test_an_invalid_owner_is_reported_with_the_right_form(owner: str) -> None:
    (problem,) = check_scheduled({"every": "1h", "owner": owner}).problems
    assert (problem.code, problem.hint) == ("TC116", "write it as user:maria")
    assert problem.pointer[-1] == "owner"


def test_an_owner_is_inherited_from_a_named_timetable_and_can_be_overridden() -> None:
    checked = check_data(
        {
            "tenant": "acme",
            "schedules": {"marias": {"every": "1h", "owner": "user:maria"}},
            "sagas": [
                {"name": "one", "trigger": "scheduled:marias"},
                {
                    "name": "two",
                    "trigger": {"scheduled": {"preset": "marias", "owner": "user:joan"}},
                },
            ],
        }
    )
    assert checked.desired is not None
    owners = [schedule.timing.settings.owner for schedule in checked.desired.schedules]
    assert owners == ["user:maria", "user:joan"]


def test_an_integer_may_have_a_decimal_point() -> None:
    scheduled: JsonValue = {"every": "1h", "auto_pause_after": 3.0, "retry": {"max_attempts": 2.0}}
    settings = only_schedule(check_scheduled(scheduled)).timing.settings
    assert (settings.auto_pause_after, settings.retry.max_attempts) == (3, 2)
    assert type(settings.retry.max_attempts) is int


@dataclass(frozen=True)
class Limit:
    """The minimum and the maximum of a duration, and values just beyond them."""

    key: str
    fine: tuple[str, ...]
    too_much: tuple[str, ...]


LIMITS = (
    Limit("spread", ("0s", "23h59m59s"), ("1d1s",)),
    Limit("catch_up_window", ("0s", "31d"), ("31d1s",)),
    Limit("start_within", ("0s", "1d"), ("1d1s",)),
    Limit("timeout", ("1s", "1d"), ("0s", "1d1s", "9999d")),
)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.key)
def test_durations_have_limits(limit: Limit) -> None:
    policy = policy_with(max_timeout=timedelta(days=1))
    for value in limit.fine:
        assert codes(check_scheduled({"every": "2d", limit.key: value}, policy=policy)) == []
    for value in limit.too_much:
        found = codes(check_scheduled({"every": "2d", limit.key: value}, policy=policy))
        assert found == ["TC305"]


@pytest.mark.parametrize("key", ["backoff", "max_backoff"])
def test_backoffs_have_limits(key: str) -> None:
    def retrying(value: str) -> JsonValue:
        return {"every": "2d", "retry": {key: value, "max_attempts": 20}}

    assert codes(check_scheduled(retrying("1d"))) == []
    assert codes(check_scheduled(retrying("1d1s"))) == ["TC305"]
    assert codes(check_scheduled(retrying("9999d999999h"))) == ["TC305"]


def test_the_backoff_is_not_longer_than_the_maximum() -> None:
    def waits(**retry: str) -> list[str]:
        return codes(check_scheduled({"every": "2d", "retry": {**retry}}))

    assert waits(backoff="10m", max_backoff="1m") == ["TC305"]
    assert waits(backoff="10m", max_backoff="10m") == []
    assert waits(backoff="10m") == []


def test_backoffs_of_any_length_can_be_added_up() -> None:
    waits: JsonValue = {
        "backoff": "9999d999999h",
        "max_backoff": "9999d999999h",
        "max_attempts": 20,
    }
    assert codes(check_scheduled({"every": "2d", "retry": waits})) == ["TC305", "TC305"]


def test_the_longest_duration_of_all_attempts_includes_every_backoff_and_timeout() -> None:
    retry = RetryPolicy(5, timedelta(seconds=1), timedelta(seconds=5))
    waits = timedelta(seconds=1 + 2 + 4 + 5)
    assert retry.longest(timedelta(minutes=1)) == timedelta(minutes=5) + waits
    assert retry._replace(max_attempts=1).longest(timedelta(minutes=1)) == timedelta(minutes=1)


def test_the_spread_must_be_smaller_than_the_gap() -> None:
    assert codes(check_scheduled({"every": "30m", "spread": "29m59s"})) == []
    assert codes(check_scheduled({"every": "30m", "spread": "30m"})) == ["TC306"]
    assert codes(check_scheduled({"once": "2099-01-01T00:00:00Z", "spread": "1d"})) == []


def test_a_spread_beyond_its_limit_is_one_mistake_not_two() -> None:
    assert codes(check_scheduled({"every": "30m", "spread": "25h"})) == ["TC305"]


NIGHTLY = Timing(
    parse("0 2 * * *"),
    "Europe/London",
    DEFAULTS._replace(timeout=timedelta(minutes=15), payload={"a": 1}, priority=Priority.LOW),
)
PRESETS = policy_with(presets={"nightly": NIGHTLY})


def by_preset(**settings: JsonValue) -> Timing:
    scheduled: dict[str, JsonValue] = {"preset": "nightly", **settings}
    return only_schedule(check_scheduled(scheduled, policy=PRESETS)).timing


def test_a_schedule_inherits_timetable_time_zone_and_settings_of_a_preset() -> None:
    assert by_preset() == NIGHTLY


def test_settings_next_to_a_preset_override_single_settings() -> None:
    timing = by_preset(timezone="Asia/Tokyo", priority="high", retry={"max_attempts": 9})
    assert timing.timetable == NIGHTLY.timetable
    assert timing.timezone == "Asia/Tokyo"
    assert timing.settings == NIGHTLY.settings._replace(
        priority=Priority.HIGH,
        retry=DEFAULTS.retry._replace(max_attempts=9),
    )


def test_a_payload_replaces_the_entire_payload_of_the_preset() -> None:
    assert by_preset(payload={"b": 2}).settings.payload == {"b": 2}
    assert by_preset(payload={}).settings.payload == {}


def test_false_and_zero_override_too() -> None:
    settings = by_preset(enabled=False, auto_pause_after=0, catch_up_window="0s").settings
    assert not settings.enabled
    assert settings.auto_pause_after == 0
    assert settings.catch_up_window == timedelta(0)


def test_a_spread_is_checked_with_the_timetable_of_the_preset() -> None:
    policy = policy_with(presets={"often": NIGHTLY._replace(timetable=parse("*/15 * * * *"))})
    (problem,) = check_scheduled({"preset": "often", "spread": "15m"}, policy=policy).problems
    assert (problem.code, problem.pointer[-1]) == ("TC306", "spread")


def test_a_schedule_of_the_manifest_hides_a_preset_of_the_same_name() -> None:
    checked = check_data(
        {
            "schedules": {"nightly": "0 3 * * *"},
            "sagas": [{"name": "a", "trigger": "scheduled:nightly"}],
        },
        policy=PRESETS,
    )
    assert only_schedule(checked).timing.cron == "0 3 * * *"


def test_a_schedule_of_the_manifest_may_extend_the_preset_of_the_same_name() -> None:
    checked = check_data(
        {
            "schedules": {"nightly": {"preset": "nightly", "timezone": "Asia/Tokyo"}},
            "sagas": [{"name": "a", "trigger": "scheduled:nightly"}],
        },
        policy=PRESETS,
    )
    timing = only_schedule(checked).timing
    assert (timing.cron, timing.timezone) == ("0 2 * * *", "Asia/Tokyo")


def test_schedules_of_the_manifest_cannot_refer_to_each_other() -> None:
    checked = check_data(
        {
            "schedules": {"one": {"preset": "two"}, "two": {"preset": "one"}},
            "sagas": [
                {"name": "a", "trigger": "scheduled:one"},
                {"name": "b", "trigger": "scheduled:two"},
            ],
        }
    )
    assert codes(checked) == ["TC206", "TC206"]


def test_the_defaults_of_the_schema_are_the_effective_ones() -> None:
    documented = {
        key: value
        for key, value in defaults("manifest", "Timing").items()
        if key not in ("timezone", "enabled")
    }
    stored = write_settings(DEFAULTS)
    assert documented.items() <= stored.items()
    assert defaults("manifest", "Retry") == stored["retry"]


@pytest.mark.parametrize(("timeout", "expected"), [("1h", []), ("1h1s", ["TC307"])])
def test_a_timeout_above_the_platforms_maximum_is_rejected(
    timeout: str, expected: list[str]
) -> None:
    assert codes(check_scheduled({"every": "1d", "timeout": timeout})) == expected


def test_a_preset_cannot_give_a_schedule_a_longer_timeout() -> None:
    checked = check_data(
        {
            "schedules": {"long": {"every": "1d", "timeout": "2h"}},
            "sagas": [{"name": "a", "trigger": "scheduled:long"}],
        }
    )
    (problem,) = checked.problems
    assert (problem.code, problem.pointer) == ("TC307", ("schedules", "long", "timeout"))
    assert problem.message == "a timeout of 2h is longer than the platform allows: 1h"


def test_the_default_timeout_is_never_above_the_platforms_maximum() -> None:
    policy = policy_with(max_timeout=timedelta(minutes=1))
    one_line: JsonValue = {"sagas": [{"name": "a", "trigger": "scheduled:a:0 2 * * *"}]}
    for checked in (
        check_scheduled({"every": "1d"}, policy=policy),
        check_data(one_line, policy=policy),
    ):
        assert only_schedule(checked).timing.settings.timeout == timedelta(minutes=1)
