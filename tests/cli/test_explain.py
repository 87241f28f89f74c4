"""`tenantcron explain` and `tenantcron schema`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.manifests import ROOT

from tenantcron.cli.main import main
from tenantcron.cron.zones import zone_names
from tenantcron.manifests.language.rules import RULES, Rule
from tenantcron.reconciler.refusals import REFUSALS
from tenantcron.service.responses.problem_types import PROBLEMS


@pytest.fixture(autouse=True)
def pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output goes to a pipe without a width."""
    monkeypatch.delenv("COLUMNS", raising=False)


EVERY = RULES | REFUSALS | {code: kind.rule for code, kind in PROBLEMS.items()}


@pytest.mark.parametrize("code", [[], ["TC302"]])
def test_explanations_fit_the_terminal(
    code: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    assert main(["explain", *code]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert any(line.startswith("      ") for line in lines)


@pytest.mark.parametrize("rule", EVERY.values(), ids=EVERY.keys())
def test_every_code_is_explained(rule: Rule, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", rule.code]) == 0
    assert capsys.readouterr().out == (
        f"{rule.code} {rule.name} ({rule.severity})\n\n{rule.what}\n\n"
        f"Why   {rule.why}\nFix   {rule.fix}\n"
    )


@pytest.mark.parametrize("word", ["TC301", "tc301", "interval-below-floor", "Interval-Below-Floor"])
def test_a_rule_is_found_by_its_code_and_by_its_name(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", word]) == 0
    assert capsys.readouterr().out.startswith("TC301 interval-below-floor (error)\n")


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert [line[:5] for line in capsys.readouterr().out.splitlines()] == list(EVERY)


def test_rules_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "TC204", "--format", "json"]) == 0
    rule = RULES["TC204"]
    assert json.loads(capsys.readouterr().out) == [
        {
            "code": "TC204",
            "name": "both-day-fields",
            "severity": "warning",
            "what": rule.what,
            "why": rule.why,
            "fix": rule.fix,
        }
    ]
    assert main(["explain", "--format", "json"]) == 0
    assert [rule["code"] for rule in json.loads(capsys.readouterr().out)] == list(EVERY)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("TC999", "`tenantcron explain` lists all codes"),
        ("nevr-fires", "did you mean never-fires?"),
    ],
)
def test_an_unknown_code_is_a_usage_error(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", word]) == 2
    assert capsys.readouterr().err == f"error: there is no code {word}; {hint}\n"


def printed(*arguments: str) -> dict[str, Any]:
    """Return the schema that a command prints."""
    command = [sys.executable, "-m", "tenantcron", "schema", *arguments]
    run = subprocess.run(command, capture_output=True, check=True)
    schema: dict[str, Any] = json.loads(run.stdout)
    Draft202012Validator.check_schema(schema)
    return schema


@pytest.mark.parametrize("name", ["manifest", "policy"])
def test_the_printed_schema_has_the_keys_of_the_published_one_and_the_time_zones(name: str) -> None:
    published = json.loads((ROOT / "manifests" / f"{name}.schema.json").read_text(encoding="utf-8"))
    schema = printed(name)
    for definition, part in schema["$defs"].items():
        properties = part.get("properties", {})
        assert list(properties) == list(published["$defs"][definition].get("properties", {}))
        if "timezone" in properties:
            assert properties["timezone"]["enum"] == sorted(zone_names())
    assert schema["properties"].keys() == published["properties"].keys()


def test_the_schema_offers_the_presets_of_a_policy_and_accepts_others(tmp_path: Path) -> None:
    policy = tmp_path / "tenantcron.toml"
    policy.write_text("[policy.presets]\nnightly = '0 2 * * *'\nhourly = '0 * * * *'\n")

    schema = printed("--policy", str(policy))

    scheduled = schema["$defs"]["Scheduled"]["properties"]
    assert scheduled["preset"]["examples"] == ["hourly", "nightly"]
    trigger = schema["$defs"]["Saga"]["properties"]["trigger"]
    assert trigger["examples"][:2] == ["scheduled:hourly", "scheduled:nightly"]
    own = {"schedules": {"own": "0 3 * * *"}, "sagas": [{"name": "a", "trigger": "scheduled:own"}]}
    assert Draft202012Validator(schema).is_valid(own)


def test_the_schema_of_an_unreadable_policy_is_a_usage_error() -> None:
    assert main(["schema", "--policy", "none.toml"]) == 2


def test_the_schema_of_manifests_is_the_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "tenantcron manifest"
