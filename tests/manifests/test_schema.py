"""The published JSON Schemas are current and valid, and agree with the models and our checker."""

import json
import tomllib
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from jsonschema import Draft202012Validator
from support.judges import verdicts
from support.manifests import GOOD, Mistake, manifest, mistakes
from support.mutations import damaged

from tenantcron.core.values import JsonValue
from tenantcron.manifests import generate
from tenantcron.manifests.document import Syntax, load
from tenantcron.manifests.files import find_files
from tenantcron.manifests.language.schemas import SchemaName, schema_text

NAMES: tuple[SchemaName, ...] = ("manifest", "policy")


def data_of(content: bytes, syntax: Syntax) -> JsonValue:
    document = load(content, syntax=syntax).document
    return document.data if document else None


GOOD_MANIFESTS = [
    data_of(file.read_bytes(), "json" if file.suffix == ".json" else "yaml")
    for file in find_files([GOOD])
]
GOOD_POLICY: JsonValue = tomllib.loads((GOOD / "tenantcron.toml").read_text())["policy"]

SETTINGS = settings(max_examples=400)


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_schema_matches_the_models(name: SchemaName) -> None:
    assert schema_text(name) == generate.render()[f"{name}.schema.json"]


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_a_valid_schema(name: SchemaName) -> None:
    Draft202012Validator.check_schema(json.loads(schema_text(name)))


@pytest.mark.parametrize("name", NAMES)
def test_every_key_has_a_description_for_the_editor(name: SchemaName) -> None:
    schema = json.loads(schema_text(name))
    for owner in (schema, *schema["$defs"].values()):
        for key, rule in owner.get("properties", {}).items():
            assert {"description", "$ref"} & rule.keys(), key


@dataclass(frozen=True)
class EditorMessage:
    """A schedule, and what an editor shows."""

    scheduled: JsonValue
    message: str


MESSAGES = (
    EditorMessage(
        {"timezone": "UTC"},
        "add a timetable: one of cron, every, daily, weekly, monthly, once, preset",
    ),
    EditorMessage(
        {"preset": "nightly", "every": "1h"}, "`every` is a timetable, too: keep one of the two"
    ),
    EditorMessage({"every": "1 hour"}, "must be a duration such as 90s, 15m, 1h30m or 7d"),
    EditorMessage({"daily": {"at": "2pm"}}, "must be a time of day such as 02:00"),
)


@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: case.message)
def test_editors_can_show_a_readable_message(case: EditorMessage) -> None:
    definitions = json.loads(schema_text("manifest"))["$defs"]
    conditions = definitions["Trigger"]["properties"]["scheduled"]["allOf"]
    shown = [
        condition["then"]["errorMessage"]
        for condition in conditions
        if not Draft202012Validator(condition).is_valid(case.scheduled)
    ]
    keys = Draft202012Validator({"$defs": definitions, **definitions["Scheduled"]})
    shown += [error.schema["errorMessage"] for error in keys.iter_errors(case.scheduled)]
    assert shown == [case.message]


@pytest.mark.parametrize("data", GOOD_MANIFESTS)
def test_all_validators_accept_the_valid_examples(data: JsonValue) -> None:
    assert set(verdicts("manifest", data).values()) == {True}


def test_all_validators_accept_the_policy_of_the_examples() -> None:
    assert set(verdicts("policy", GOOD_POLICY).values()) == {True}


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.code)
def test_all_validators_agree_on_the_mistakes(mistake: Mistake) -> None:
    data = data_of(mistake.content, mistake.syntax)
    assert len(set(verdicts("manifest", data).values())) == 1


STRUCTURAL = ("TC101", "TC102", "TC103", "TC104", "TC106", "TC107", "TC111")


@pytest.mark.parametrize(
    "mistake",
    [mistake for mistake in mistakes() if mistake.code in STRUCTURAL],
    ids=lambda mistake: mistake.code,
)
def test_all_validators_reject_the_structural_mistakes(mistake: Mistake) -> None:
    data = data_of(mistake.content, mistake.syntax)
    assert set(verdicts("manifest", data).values()) == {False}


@SETTINGS
@given(data=damaged(GOOD_MANIFESTS))
@example(data=manifest({"every": "1h", "auto_pause_after": False}))
@example(data=manifest({"every": "1h", "auto_pause_after": 3.0}))
@example(data=manifest({"every": "1h", "retry": {"max_attempts": True}}))
@example(data=manifest({"weekly": {"on": ["mon", "mon"], "at": "02:00"}}))
@example(data={"sagas": [{"name": "a", "trigger": {}}]})
@example(data={"version": True, "sagas": []})
@example(data={"version": 1, "sagas": []})
@example(data={"version": 1.0, "sagas": []})
@example(data={"tenant": "acme\n", "sagas": []})
@example(data={"schedules": {"nightly\n": "0 2 * * *"}, "sagas": []})
@example(data={"x-anything": None, "sagas": []})
def test_all_validators_agree_on_damaged_manifests(data: JsonValue) -> None:
    results = verdicts("manifest", data)
    assert len(set(results.values())) == 1, (results, data)


@SETTINGS
@given(data=damaged([GOOD_POLICY]))
def test_all_validators_agree_on_damaged_policies(data: JsonValue) -> None:
    results = verdicts("policy", data)
    assert len(set(results.values())) == 1, (results, data)
