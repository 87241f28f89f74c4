"""`tenantcron next`: when a timetable or the schedules of manifests fire."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.manifests import GOOD, MISTAKES

from tenantcron.cli.main import main

AFTER = "2026-11-16T00:00:00Z"


@dataclass(frozen=True)
class Answer:
    """The output of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def following(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> Answer:
        code = main(["next", *arguments])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def test_json_has_the_documented_keys(following: Any) -> None:
    answer = following("*/15 * * * *", "--after", AFTER, "--count", "2", "--format", "json")
    assert answer.code == 0
    assert answer.data == {
        "expression": "*/15 * * * *",
        "timezone": "UTC",
        "shortest_gap_seconds": 900,
        "never_fires": False,
        "fires": ["2026-11-16T00:15:00+00:00", "2026-11-16T00:30:00+00:00"],
    }


def test_text_shows_local_time_and_utc(following: Any) -> None:
    answer = following(
        "30 2 * * *", "--timezone", "Europe/Berlin", "--after", AFTER, "--count", "2"
    )
    assert answer.out == (
        "30 2 * * * in Europe/Berlin, minimum interval 1d (local time)\n"
        "  Mon 2026-11-16 02:30 CET  (2026-11-16 01:30 UTC)  in 1 h 30 min\n"
        "  Tue 2026-11-17 02:30 CET  (2026-11-17 01:30 UTC)  in 1 d 1 h\n"
    )


def test_text_shows_seconds_where_there_are_any(following: Any) -> None:
    answer = following("@every 90s", "--after", AFTER, "--count", "2")
    assert answer.out == (
        "@every 90s in UTC, minimum interval 1m30s (local time)\n"
        "  Mon 2026-11-16 00:01:30 UTC  in 1 min\n"
        "  Mon 2026-11-16 00:03:00 UTC  in 3 min\n"
    )


def test_five_occurrences_are_shown_by_default(following: Any) -> None:
    assert len(following("0 * * * *", "--format", "json").data["fires"]) == 5


def test_all_occurrences_are_after_the_given_time(following: Any) -> None:
    options = ("--count", "1", "--format", "json")
    exact = following("0 2 * * *", "--after", "2026-11-16T02:00:00Z", *options)
    assert exact.data["fires"] == ["2026-11-17T02:00:00+00:00"]


def test_a_time_without_an_offset_is_in_the_zone(following: Any) -> None:
    zone = ("--timezone", "America/New_York", "--count", "1", "--format", "json")
    naive = following("0 * * * *", "--after", "2026-11-16T09:30", *zone)
    aware = following("0 * * * *", "--after", "2026-11-16T14:30Z", *zone)
    assert naive.data["fires"] == aware.data["fires"] == ["2026-11-16T10:00:00-05:00"]


def test_a_skipped_time_fires_after_the_gap(following: Any) -> None:
    answer = following(
        "30 1 * * *", "--timezone", "Europe/London", "--after", "2027-03-27T12:00",
        "--count", "1", "--format", "json",
    )  # fmt: skip
    assert answer.data["fires"] == ["2027-03-28T02:00:00+01:00"]


def test_a_single_time(following: Any) -> None:
    answer = following("@at 2026-12-01T09:00:00Z", "--after", AFTER, "--format", "json")
    assert answer.data["fires"] == ["2026-12-01T09:00:00+00:00"]
    assert answer.data["shortest_gap_seconds"] is None
    assert answer.data["never_fires"] is False


def test_a_single_time_that_has_passed(following: Any) -> None:
    answer = following("@at 2020-01-01T09:00:00Z", "--after", AFTER)
    assert (answer.code, answer.out) == (
        0,
        "@at 2020-01-01T09:00:00Z in UTC\n  no later occurrence\n",
    )


def test_an_interval(following: Any) -> None:
    answer = following("@every 45m", "--after", AFTER, "--count", "2", "--format", "json")
    assert answer.data["shortest_gap_seconds"] == 2700
    assert len(answer.data["fires"]) == 2


def test_a_malformed_expression_is_reported(following: Any) -> None:
    answer = following("0 2 * *", "--format", "json")
    assert answer.code == 1
    assert answer.data["expression"] == "0 2 * *"
    assert answer.data["error"]["code"] == "TC201"
    assert "5 fields" in answer.data["error"]["message"]
    printed = following("0 2 * *")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith("error[TC201] a cron expression has 5 fields")
    assert "\n  help: " in printed.err


def test_an_expression_that_never_fires_is_reported(following: Any) -> None:
    answer = following("0 0 31 2 *", "--format", "json")
    assert answer.code == 1
    assert answer.data["never_fires"] is True
    assert answer.data["error"]["code"] == "TC202"
    printed = following("0 0 31 2 *")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith("error[TC202] ")


def test_escapes_in_an_expression_do_not_reach_the_terminal(following: Any) -> None:
    assert "\x1b" not in following("\x1b[31m 2 * * *").err


@pytest.mark.parametrize("count", ["0", "-1", "10001"])
def test_the_count_has_bounds(following: Any, count: str) -> None:
    answer = following("0 2 * * *", f"--count={count}")
    assert (answer.code, answer.err) == (2, "error: --count takes a number from 1 to 10000\n")


def test_the_highest_count(following: Any) -> None:
    answer = following("0 * * * *", "--count", "10000", "--format", "json")
    assert len(answer.data["fires"]) == 10_000


def test_an_unknown_zone_is_a_usage_error_with_a_suggestion(following: Any) -> None:
    answer = following("0 2 * * *", "--timezone", "Europe/Londn")
    assert answer.code == 2
    assert answer.err == ("error: unknown time zone 'Europe/Londn': did you mean Europe/London?\n")


@pytest.mark.parametrize("time", ["someday", "", "2026-13-01", "0001-01-01T00:00+05:00"])
def test_a_malformed_time_is_a_usage_error(following: Any, time: str) -> None:
    answer = following("0 2 * * *", f"--after={time}")
    assert answer.code == 2
    assert "is not a time such as 2026-12-01T09:00:00Z" in answer.err


def test_the_schedules_of_manifests_in_json(following: Any) -> None:
    answer = following(
        "--manifest", str(GOOD), "--after", AFTER, "--count", "2", "--format", "json"
    )
    tenants = {tenant["tenant"]: tenant["schedules"] for tenant in answer.data["tenants"]}
    assert answer.code == 0
    assert list(tenants) == [
        "acme", "brightgrid", "lumen", "meridian", "northwind", "solaris",
    ]  # fmt: skip
    assert tenants["meridian"] == [
        {
            "name": "monthly_billing",
            "saga": "generate_monthly_invoice",
            "cron": "0 2 1 * *",
            "timezone": "Europe/London",
            "enabled": True,
            "next_executions": ["2026-12-01T02:00:00+00:00", "2027-01-01T02:00:00+00:00"],
        }
    ]


def test_the_schedules_of_manifests_in_text(following: Any) -> None:
    file = str(GOOD / "meridian.json")
    answer = following("--manifest", file, "--after", AFTER, "--count", "1")
    assert answer.out == (
        "meridian\n"
        "  monthly_billing  0 2 1 * * in Europe/London\n"
        "    Tue 2026-12-01 02:00 GMT  in 15 d 2 h\n"
    )


def test_a_schedule_that_is_switched_off_has_no_next_execution(
    following: Any, tmp_path: Path
) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text("sagas: [{name: a, trigger: {scheduled: {every: 1h, enabled: false}}}]")
    answer = following("--manifest", str(file), "--format", "json")
    (schedule,) = answer.data["tenants"][0]["schedules"]
    assert (schedule["enabled"], schedule["next_executions"]) == (False, [])


def test_a_manifest_with_errors_is_a_finding_and_leads_to_validate(following: Any) -> None:
    file = MISTAKES / "TC301-interval-below-floor.yaml"
    answer = following("--manifest", str(GOOD), str(file))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"error: {file} has errors: `tenantcron validate {GOOD} {file}`\n"


def test_a_missing_manifest_is_a_usage_error(following: Any) -> None:
    answer = following("--manifest", "none.yaml")
    assert (answer.code, answer.err) == (2, "error: none.yaml: no such file\n")
