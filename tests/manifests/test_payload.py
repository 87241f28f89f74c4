"""Payloads: plain JSON of bounded size, four placeholders, nothing evaluated."""

import pytest
from support.manifests import check, check_scheduled, codes, only_schedule

from tenantcron.core.values import JsonValue
from tenantcron.manifests.language.payload import fill
from tenantcron.schedules.settings import LONGEST_PAYLOAD

VALUES = {
    "fire_time": "2026-12-01T02:00:00+00:00",
    "execution_id": "0b6f",
    "tenant": "acme",
    "schedule": "nightly",
}


def check_payload(payload: JsonValue) -> list[str]:
    return codes(check_scheduled({"every": "1h", "payload": payload}))


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"a": None, "b": [1, 2.5, True, {"c": "d"}]},
        {"at": "{{fire_time}}", "id": "{{ execution_id }}"},
        {"deep": [{"er": ["{{tenant}}-{{schedule}}"]}]},
        {"{{nonsense}}": "keys are not filled"},
        {"braces": "{nonsense} } }} {", "beside": "{{{tenant}}{"},
    ],
)
def test_valid_payloads(payload: JsonValue) -> None:
    assert check_payload(payload) == []


@pytest.mark.parametrize(
    "text", ["{{firetime}}", "{{FIRE_TIME}}", "{{}}", "{{tenant.id}}", "a {{x}} b", "{{a\nb}}"]
)
def test_an_unknown_placeholder_is_an_error(text: str) -> None:
    assert check_payload({"a": text}) == ["TC304"]


@pytest.mark.parametrize("text", ["{{tenant}", "{{a{b}}", "{{ } }}", "{{{", "{{tenant}} {{"])
def test_an_incomplete_placeholder_is_an_error(text: str) -> None:
    (problem,) = check_scheduled({"every": "1h", "payload": {"a": text}}).problems
    assert problem.code == "TC304"
    assert problem.message.endswith("` looks like a placeholder but is not one")


@pytest.mark.parametrize(
    "payload",
    [
        {"password": "hunter2"},
        {"db": {"DB_PASSWORD": "correct horse"}},
        {"api_key": "0123456789"},
        {"clientSecret": "x", "client_secret": "0123456789"},
        {"keys": ["AKIAIOSFODNN7EXAMPLE"]},
        {"note": "sk_live_4eC39HqLyjWDarjtT1zdp7dc"},
        {"note": "use AKIAIOSFODNN7EXAMPLE for the upload"},
        {"pem": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"},
        {"deep": [{"list": [["ghp_0123456789abcdefghij"]]}]},
        {"partners": [{"aws_secret_access_key": "wJalrXUtnFEMI"}]},
        {"password": ["hunter2"]},
        {"api_key": 1234567890},
        {"url": "https://maria:hunter2@partner.example/upload"},
        {"jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"},
    ],
)
def test_a_secret_in_a_payload_is_an_error(payload: JsonValue) -> None:
    assert check_payload(payload) == ["TC407"]


@pytest.mark.parametrize(
    "payload",
    [
        {"token": "gold-tier-2026"},
        {"password": ""},
        {"password": "{{tenant}}"},
        {"password_policy": "strict"},
        {"api_keys_rotated": "yes"},
        {"checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
        {"signature": "by the tenant"},
        {"password": 0},
        {"api_key": True},
        {"url": "https://partner.example/maria:x@home"},
        {"code": "SAKIAIOSFODNN7EXAMPLES"},
    ],
)
def test_words_that_are_not_secrets_are_allowed_in_a_payload(payload: JsonValue) -> None:
    assert check_payload(payload) == []


def test_an_unknown_placeholder_is_reported_at_its_position() -> None:
    (problem,) = check_scheduled(
        {"every": "1h", "payload": {"a": [{"b": "{{tenant}} {{firetime}}"}]}}
    ).problems
    assert problem.pointer == ("sagas", 0, "trigger", "scheduled", "payload", "a", 0, "b")
    assert (problem.message, problem.hint) == (
        "{{firetime}} is not a known placeholder",
        "did you mean {{fire_time}}?",
    )


def test_a_repeated_placeholder_in_one_string_is_one_mistake() -> None:
    assert check_payload({"a": "{{x}} {{x}} {{y}}", "b": "{{x}}"}) == ["TC304"] * 3


@pytest.mark.parametrize("payload", [[], "text", 5, None, True])
def test_a_payload_is_a_mapping(payload: JsonValue) -> None:
    assert check_payload(payload) in (["TC103"], ["TC104"])


def payload_of(size: int, letter: str = "x") -> JsonValue:
    """Return a payload with exactly this size as JSON."""
    room = size - len('{"a":""}')
    return {"a": letter * (room // len(letter.encode()))}


def test_the_size_limit_may_be_reached_but_not_exceeded() -> None:
    assert check_payload(payload_of(LONGEST_PAYLOAD)) == []
    assert check_payload(payload_of(LONGEST_PAYLOAD + 1)) == ["TC303"]


def test_the_size_counts_bytes_not_characters() -> None:
    assert check_payload(payload_of(LONGEST_PAYLOAD, "ü")) == []
    assert check_payload(payload_of(LONGEST_PAYLOAD + 2, "ü")) == ["TC303"]


def test_a_payload_expanded_by_aliases_is_too_large() -> None:
    text = (
        f"sagas:\n- name: a\n  x: &x {'y' * 50_000}\n  trigger:\n    scheduled:\n"
        "      every: 1h\n      payload: {a: [*x, *x, *x, *x, *x, *x]}\n"
    )
    assert codes(check(text)) == ["TC303"]


def test_only_placeholders_in_strings_are_replaced() -> None:
    payload: JsonValue = {
        "at": "{{fire_time}}",
        "{{tenant}}": ["{{ tenant }}/{{schedule}}", 5, None, {"id": "x{{execution_id}}x"}],
    }
    assert fill(payload, VALUES) == {
        "at": "2026-12-01T02:00:00+00:00",
        "{{tenant}}": ["acme/nightly", 5, None, {"id": "x0b6fx"}],
    }


def test_replaced_values_are_not_evaluated_again() -> None:
    assert fill("{{tenant}}", {**VALUES, "tenant": "{{schedule}}"}) == "{{schedule}}"
    assert fill("{{tenant}}", {**VALUES, "tenant": r"\1"}) == r"\1"


def test_placeholders_of_a_valid_payload_can_be_replaced() -> None:
    payload = {"a": "{{ fire_time }} {{schedule}} { } }} {"}
    schedule = only_schedule(check_scheduled({"every": "1h", "payload": dict(payload)}))
    filled = fill(schedule.timing.settings.payload, VALUES)
    assert filled == {"a": "2026-12-01T02:00:00+00:00 nightly { } }} {"}
