"""The structure of a manifest: keys, types, names, and sections of other tools."""

from dataclasses import dataclass

import pytest
from support.manifests import check, check_data, check_scheduled, codes, manifest

from tenantcron.core.values import JsonValue
from tenantcron.schedules.settings import SETTINGS


@dataclass(frozen=True)
class Case:
    """A manifest, and its only problem."""

    name: str
    data: JsonValue
    code: str
    message: str
    hint: str | None = None


def saga(**keys: JsonValue) -> dict[str, JsonValue]:
    return {"sagas": [{"name": "reconcile", "trigger": "api:reconcile", **keys}]}


CASES = (
    Case("a list", [], "TC103", "the manifest must be a mapping, not a list"),
    Case("a string", "sagas", "TC103", "the manifest must be a mapping, not a string"),
    Case("no sagas", {"version": "1.0"}, "TC102", "the manifest has no `sagas`", "add `sagas:`"),
    Case(
        "sagas null",
        {"sagas": None},
        "TC104",
        "`sagas` has no value",
        "write a value, or [] if there are none",
    ),
    Case(
        "schedules null",
        {"sagas": [], "schedules": None},
        "TC104",
        "`schedules` has no value",
        "write a value, or {} if there are none, or remove the key",
    ),
    Case(
        "a saga null",
        {"sagas": [None]},
        "TC104",
        "entry 1 of `sagas` has no value",
        "remove the entry",
    ),
    Case("sagas a mapping", {"sagas": {}}, "TC103", "`sagas` must be a list, not a mapping"),
    Case(
        "a saga a string",
        {"sagas": ["a"]},
        "TC103",
        "entry 1 of `sagas` must be a mapping, not a string",
    ),
    Case(
        "version 2", {"version": "2.0", "sagas": []}, "TC106", '`version` must be "1.0", not "2.0"'
    ),
    Case(
        "version true",
        {"version": True, "sagas": []},
        "TC103",
        '`version` must be "1.0", not true or false',
    ),
    Case(
        "trigger a list",
        saga(trigger=[]),
        "TC103",
        "`trigger` must be a string or a mapping, not a list",
    ),
    Case(
        "trigger empty",
        saga(trigger={}),
        "TC102",
        "`trigger` is empty",
        "add one of scheduled, api, webhook, event",
    ),
    Case(
        "trigger misspelt",
        saga(trigger={"schedule": {}}),
        "TC101",
        "`trigger` has no key `schedule`",
        "did you mean `scheduled`?",
    ),
    Case(
        "target empty",
        saga(target={}),
        "TC102",
        "`target` is empty",
        "add one of http, grpc, celery, temporal",
    ),
    Case(
        "no timetable",
        manifest({}),
        "TC111",
        "`scheduled` has no timetable",
        "add one of cron, every, daily, weekly, monthly, once, preset",
    ),
    Case(
        "a key far off",
        manifest({"every": "1h", "colour": 1}),
        "TC101",
        "`scheduled` has no key `colour`",
        "`scheduled` has cron, every, daily, weekly, monthly, once, preset, timezone, "
        f"{', '.join(SETTINGS)}, name",
    ),
    Case(
        "a number as text",
        manifest({"every": "1h", "description": 5}),
        "TC103",
        "`description` must be a string, not a whole number",
        "put it in quotes",
    ),
    Case(
        "text as a boolean",
        manifest({"every": "1h", "enabled": "no"}),
        "TC103",
        "`enabled` must be true or false, not a string",
        "write true or false, without quotes",
    ),
    Case(
        "a choice misspelt",
        manifest({"every": "1h", "priority": "hihg"}),
        "TC106",
        '`priority` must be one of critical, high, medium, low, not "hihg"',
        "did you mean high?",
    ),
    Case(
        "too many attempts",
        manifest({"every": "1h", "retry": {"max_attempts": 21}}),
        "TC106",
        "`max_attempts` must be from 1 to 20, not 21",
    ),
    Case(
        "half an attempt",
        manifest({"every": "1h", "retry": {"max_attempts": 1.5}}),
        "TC103",
        "`max_attempts` must be a whole number, not a number",
    ),
    Case(
        "pause after 2",
        manifest({"every": "1h", "auto_pause_after": 2}),
        "TC106",
        "`auto_pause_after` must be 0 (never) or a number from 3 to 100, not 2",
    ),
    Case(
        "pause after false",
        manifest({"every": "1h", "auto_pause_after": False}),
        "TC103",
        "`auto_pause_after` must be 0 (never) or a number from 3 to 100, not true or false",
    ),
    Case(
        "day 32",
        manifest({"monthly": {"day": 32, "at": "02:00"}}),
        "TC106",
        "`day` must be a day from 1 to 31, or last, not 32",
    ),
    Case(
        "the first",
        manifest({"monthly": {"day": "first", "at": "02:00"}}),
        "TC106",
        '`day` must be a day from 1 to 31, or last, not "first"',
    ),
    Case(
        "24:00",
        manifest({"daily": {"at": "24:00"}}),
        "TC106",
        '`at` must be a time of day such as 02:00, not "24:00"',
    ),
    Case(
        "no weekday",
        manifest({"weekly": {"on": [], "at": "02:00"}}),
        "TC106",
        "`on` needs at least one entry",
    ),
    Case(
        "a weekday twice",
        manifest({"weekly": {"on": ["mon", "mon"], "at": "02:00"}}),
        "TC106",
        '"mon" is listed twice',
    ),
    Case(
        "a whole weekday",
        manifest({"weekly": {"on": ["mon", "friday"], "at": "02:00"}}),
        "TC106",
        'entry 2 of `on` must be one of mon, tue, wed, thu, fri, sat, sun, not "friday"',
    ),
    Case(
        "a long description",
        manifest({"every": "1h", "description": "x" * 1025}),
        "TC106",
        '`description` must be at most 1024 characters long, not "' + "x" * 60 + '…"',
    ),
    Case(
        "an empty duration",
        manifest({"every": ""}),
        "TC106",
        "`every` must be a duration such as 90s, 15m, 1h30m or 7d, not an empty string",
    ),
    Case(
        "GET",
        saga(target={"http": {"url": "https://billing.internal", "method": "GET"}}),
        "TC106",
        '`method` must be one of POST, PUT, PATCH, not "GET"',
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_structural_mistake_has_a_plain_message(case: Case) -> None:
    problems = [p for p in check_data(case.data).problems if not p.code.startswith("TC4")]
    (problem,) = problems
    assert (problem.code, problem.message) == (case.code, case.message)
    if case.hint is not None:
        assert problem.hint == case.hint


@pytest.mark.parametrize("key", ["saga", "sagsa", "Sagas", "sagass"])
def test_a_misspelt_sagas_section_is_an_error_with_a_suggestion(key: str) -> None:
    problems = check_data({key: []}).problems
    assert sorted(problem.code for problem in problems) == ["TC102", "TC105"]
    assert "did you mean `sagas`?" in [problem.hint for problem in problems]


@pytest.mark.parametrize(
    "key", ["schedule", "Schedules", "shedules", "tennant", "Tenant", "metdata", "versoin"]
)
def test_a_misspelt_optional_section_is_an_error(key: str) -> None:
    assert codes(check_data({"sagas": [], key: {}})) == ["TC105"]


@pytest.mark.parametrize("key", ["triger", "targets", "nme", "Trigger"])
def test_a_misspelt_key_of_a_saga_is_an_error(key: str) -> None:
    assert codes(check_data(saga(**{key: {}}))) == ["TC105"]


@pytest.mark.parametrize(
    "key",
    [
        "instruments",
        "accountTypes",
        "valuationRules",
        "accounts",
        "policies",
        "services",
        "x-notes",
        "x-sagas-of-old",
        "events",
        "webhooks",
        "$schema",
    ],
)
def test_sections_of_other_tools_are_ignored(key: str) -> None:
    assert codes(check_data({"sagas": [], key: None})) == []


@pytest.mark.parametrize("key", ["script", "filter", "description", "steps", "timeout", "x-owner"])
def test_other_keys_of_a_saga_are_ignored(key: str) -> None:
    assert codes(check_data(saga(**{key: None}))) == []


@pytest.mark.parametrize("version", ["1.0", 1.0, 1])
def test_the_version_may_be_unquoted(version: JsonValue) -> None:
    assert codes(check_data({"version": version, "sagas": []})) == []


@dataclass(frozen=True)
class NameCase:
    """The name of a saga, and whether it is valid."""

    name: str
    is_good: bool


@pytest.mark.parametrize(
    "case",
    [
        NameCase("a", True),
        NameCase("a" * 128, True),
        NameCase("a" * 129, False),
        NameCase("a-b_9", True),
        NameCase("reconcile\n", False),
        NameCase("", False),
        NameCase("9a", False),
        NameCase("_a", False),
        NameCase("Reconcile", False),
        NameCase("a b", False),
        NameCase("a.b", False),
        NameCase("größe", False),
        NameCase("a٣", False),
    ],
    ids=lambda case: repr(case.name[:12]),
)
def test_names_are_plain_lower_case(case: NameCase) -> None:
    expected = [] if case.is_good else ["TC107"]
    assert codes(check_data(saga(name=case.name))) == expected
    assert codes(check_scheduled({"every": "1h", "name": case.name})) == expected
    named: JsonValue = {case.name: "0 2 * * *"}
    checked = check_data({"sagas": [], "schedules": named})
    assert codes(checked) == (["TC210"] if case.is_good else ["TC107"])


def test_of_two_timetables_the_second_one_is_reported() -> None:
    checked = check(
        'sagas:\n- name: a\n  trigger:\n    scheduled: {daily: {at: "02:00"}, cron: x}\n'
    )
    (problem,) = checked.problems
    assert (problem.code, problem.message) == ("TC111", "`daily` and `cron` are both timetables")
    assert (problem.span.line, problem.span.column) == (4, 39)


def test_three_timetables_are_two_mistakes() -> None:
    checked = check_scheduled({"cron": "0 2 * * *", "every": "1h", "once": "2099-01-01T00:00:00Z"})
    assert codes(checked) == ["TC111", "TC111"]


def test_checks_continue_below_and_next_to_a_mistake() -> None:
    data: JsonValue = {
        "version": 3,
        "tenant": 5,
        "sagas": [
            {"name": "A", "trigger": {"scheduled": {"every": 5, "timezone": "Mars"}, "cron": 1}},
            {"name": "b", "trigger": {"scheduled": {"cron": "61 * * * *", "retry": {"x": 1}}}},
        ],
    }
    found = codes(check_data(data))
    assert sorted(found) == sorted(
        ["TC106", "TC103", "TC107", "TC103", "TC205", "TC101", "TC201", "TC101"]
    )


def test_a_mistake_is_reported_once_per_position() -> None:
    assert codes(check("sagas:\n- {name: a, trigger: {scheduled: {every: 1h, enabled: yes}}}")) == [
        "TC103"
    ]


def test_a_missing_key_is_reported_at_the_mapping_that_lacks_it() -> None:
    (problem,) = check("sagas:\n  - name: a\n    script: x\n").problems
    assert (problem.code, problem.pointer) == ("TC102", ("sagas", 0))
    assert (problem.span.line, problem.span.column) == (2, 5)


def test_long_values_are_shortened_in_messages() -> None:
    long = "x" * 5_000
    unknown = f"{{{{{long}}}}}"
    data: JsonValue = {
        "schedules": {"X" + long: "0 2 * * *"},
        "sagas": [
            {"name": long, "trigger": long},
            {"name": "b", "trigger": f"scheduled:{long}"},
            {"name": "c", "trigger": {"scheduled": {"once": long, "timezone": long, long: 1}}},
            {"name": "d", "trigger": {"scheduled": {"every": "1h", "payload": {"a": unknown}}}},
        ],
    }
    problems = check_data(data).problems
    assert len(problems) == 8
    assert max(len(problem.message) for problem in problems) < 250
