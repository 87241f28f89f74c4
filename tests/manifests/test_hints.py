"""Hints: what to write instead of a common mistake."""

from dataclasses import dataclass

import pytest
from support.manifests import check, check_data, check_scheduled, manifest, policy_with

from tenantcron.core.values import JsonValue
from tenantcron.manifests.diagnostics import Problem
from tenantcron.manifests.policy import Policy

CYRILLIC_A, CYRILLIC_IE, CYRILLIC_ES = "\u0430", "\u0435", "\u0441"


def http(**keys: JsonValue) -> JsonValue:
    url: JsonValue = "https://billing.internal/run"
    return manifest({"every": "1h"}, target={"http": {"url": url, **keys}})


def saga(name: str = "poll", trigger: JsonValue = "api:poll") -> JsonValue:
    return {"sagas": [{"name": name, "trigger": trigger}]}


@dataclass(frozen=True)
class Hinted:
    """A manifest, and the code and hint of its only problem."""

    name: str
    data: JsonValue
    code: str
    hint: str


CASES = (
    Hinted(
        "retry", manifest({"every": "1h", "retry": 3}), "TC103", "write `retry: {max_attempts: 3}`"
    ),
    Hinted("timeout", manifest({"every": "1h", "timeout": 300}), "TC103", "write 300s"),
    Hinted("timeout as text", manifest({"every": "1h", "timeout": "300"}), "TC106", "write 300s"),
    Hinted("upper case", manifest({"every": "1H"}), "TC106", "write 1h"),
    Hinted(
        "a weekday",
        manifest({"weekly": {"on": "Monday", "at": "02:00"}}),
        "TC103",
        "write `on: [mon]`",
    ),
    Hinted(
        "weekdays in one text",
        manifest({"weekly": {"on": "tue, Friday", "at": "02:00"}}),
        "TC103",
        "write `on: [tue, fri]`",
    ),
    Hinted(
        "a long weekday",
        manifest({"weekly": {"on": ["Monday"], "at": "02:00"}}),
        "TC106",
        "did you mean mon?",
    ),
    Hinted("daily", manifest({"daily": "02:00"}), "TC103", 'write `daily: {at: "02:00"}`'),
    Hinted("cron", manifest("0 2 * * *"), "TC103", 'write `scheduled: {cron: "0 2 * * *"}`'),
    Hinted("preset", manifest("nightly"), "TC103", "write `scheduled: {preset: nightly}`"),
    Hinted("interval", manifest("15m"), "TC103", "write `scheduled: {every: 15m}`"),
    Hinted(
        "cron as trigger",
        saga(trigger="0 2 * * *"),
        "TC112",
        'write `trigger: "scheduled:poll:0 2 * * *"`',
    ),
    Hinted(
        "cron in trigger",
        saga(trigger={"cron": "0 2 * * *"}),
        "TC101",
        "move it below `scheduled:`",
    ),
    Hinted(
        "attempts in scheduled",
        manifest({"every": "1h", "max_attempts": 3}),
        "TC101",
        "move it below `retry:`",
    ),
    Hinted(
        "bearer",
        http(auth="bearer"),
        "TC106",
        "write none, execution_token, {bearer: {secret: {env: NAME}}}, "
        "{hmac: {secret: {env: NAME}}}, {oauth2_client_credentials: {token_url: URL, "
        "client_id: ID, secret: {env: NAME}}} or {mtls: {certificate: {file: PATH}, "
        "key: {file: PATH}}}",
    ),
    Hinted(
        "an offset",
        manifest({"every": "1h", "timezone": "+02:00"}),
        "TC205",
        "write a place such as Europe/Paris, or Etc/GMT-2 for this offset all year",
    ),
    Hinted(
        "an offset from UTC",
        manifest({"every": "1h", "timezone": "UTC-11"}),
        "TC205",
        "write a place such as Europe/Paris, or Etc/GMT+11 for this offset all year",
    ),
    Hinted(
        "an offset without a zone",
        manifest({"every": "1h", "timezone": "+05:30"}),
        "TC205",
        "write a name such as Europe/London or UTC",
    ),
    Hinted(
        "a Cyrillic letter in a name",
        saga(f"r{CYRILLIC_IE}port"),
        "TC107",
        "the 2nd letter is CYRILLIC SMALL LETTER IE, U+0435; write report",
    ),
    Hinted(
        "a Cyrillic letter in a tenant",
        {"tenant": f"{CYRILLIC_A}cme", "sagas": []},
        "TC107",
        "the 1st letter is CYRILLIC SMALL LETTER A, U+0430; write acme",
    ),
    Hinted(
        "a Cyrillic letter in a key",
        saga(trigger={f"s{CYRILLIC_ES}heduled": {"every": "1h"}}),
        "TC101",
        "the 2nd letter is CYRILLIC SMALL LETTER ES, U+0441; did you mean `scheduled`?",
    ),
    Hinted(
        "a Cyrillic letter in a section",
        {f"sag{CYRILLIC_A}s": [], "sagas": []},
        "TC105",
        "the 4th letter is CYRILLIC SMALL LETTER A, U+0430; did you mean `sagas`?",
    ),
    Hinted(
        "a Cyrillic letter in a trigger",
        saga(trigger=f"sch{CYRILLIC_IE}duled:nightly:0 2 * * *"),
        "TC112",
        "the 4th letter is CYRILLIC SMALL LETTER IE, U+0435; did you mean `scheduled:`?",
    ),
    Hinted(
        "a dash in a schedule name",
        saga(trigger="scheduled:night\u2013ly:0 2 * * *"),
        "TC107",
        "the 6th character is EN DASH, U+2013; write night-ly",
    ),
    Hinted(
        "a Cyrillic letter in a named schedule",
        {"schedules": {f"d{CYRILLIC_A}ily": "0 2 * * *"}, "sagas": []},
        "TC107",
        "the 2nd letter is CYRILLIC SMALL LETTER A, U+0430; write daily",
    ),
    Hinted(
        "a Cyrillic letter in a zone",
        manifest({"every": "1h", "timezone": f"Europ{CYRILLIC_IE}/London"}),
        "TC205",
        "the 6th letter is CYRILLIC SMALL LETTER IE, U+0435; write Europe/London",
    ),
    Hinted(
        "an invisible character",
        saga("pol\u200bl"),
        "TC107",
        "the 4th character is ZERO WIDTH SPACE, U+200B",
    ),
    Hinted("capitals and spaces", saga("Monthly report"), "TC107", "write monthly_report"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_common_mistake_has_a_hint_what_to_write(case: Hinted) -> None:
    policy = policy_with(hosts=("billing.internal",))
    (problem,) = check_data(case.data, policy=policy).problems
    assert (problem.code, problem.hint) == (case.code, case.hint)


@pytest.mark.parametrize("value", [21, True, "3"])
def test_a_hint_never_suggests_a_value_that_is_not_allowed(value: JsonValue) -> None:
    (problem,) = check_scheduled({"every": "1h", "retry": value}).problems
    assert problem.hint is None


def test_text_that_is_not_a_timetable_is_not_suggested_as_one() -> None:
    (problem,) = check_data(manifest("every day at 2")).problems
    assert problem.hint is None


def test_scheduled_at_the_indentation_of_its_trigger_is_named() -> None:
    checked = check("sagas:\n- name: a\n  trigger:\n  scheduled:\n    every: 1h\n")
    (problem,) = checked.problems
    assert (problem.code, problem.pointer) == ("TC104", ("sagas", 0, "trigger"))
    assert problem.hint == "indent `scheduled:` further than `trigger:`"


def test_a_foreign_letter_in_a_cron_expression_is_named() -> None:
    (problem,) = check_scheduled({"cron": f"0 2 * * s{CYRILLIC_A}t"}).problems
    assert "CYRILLIC SMALL LETTER A, U+0430" in problem.message


def test_a_long_text_in_a_foreign_script_is_only_too_long() -> None:
    (problem,) = check_scheduled({"every": "1h", "description": CYRILLIC_A * 2_000}).problems
    assert (problem.code, problem.hint) == ("TC106", None)


HOSTS = ("billing.internal", "*.example.com", "http://localhost")


def refused(url: str, policy: Policy) -> Problem:
    (problem,) = check_data(http(url=url), policy=policy).problems
    assert problem.code == "TC402"
    return problem


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("https://biling.internal/run", "billing.internal"),
        ("https://eu.exmaple.com/run", "eu.example.com"),
        ("http://locahost/run", "localhost"),
    ],
)
def test_a_misspelt_host_suggests_the_allowed_one(url: str, meant: str) -> None:
    hint = refused(url, policy_with(hosts=HOSTS)).hint
    assert str(hint).startswith(f"did you mean {meant}? Otherwise, the platform team can add")


@pytest.mark.parametrize("host", ["metering.internal", "com", "example.com"])
def test_another_host_suggests_only_the_policy(host: str) -> None:
    hint = refused(f"https://{host}/run", policy_with(hosts=HOSTS)).hint
    assert str(hint).startswith(f'the platform team can add "{host}"')
