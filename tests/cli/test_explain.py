"""`tenantcron explain` and `tenantcron schema`."""

import json
import subprocess
import sys

import pytest
from support.manifests import ROOT

from tenantcron.cli.main import main
from tenantcron.manifests.language.rules import RULES, Rule
from tenantcron.reconciler.refusals import REFUSALS
from tenantcron.service.responses.problem_types import PROBLEMS

EVERY = RULES | REFUSALS | {code: kind.rule for code, kind in PROBLEMS.items()}


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


@pytest.mark.parametrize("name", ["manifest", "policy"])
def test_the_schema_is_printed_byte_for_byte(name: str) -> None:
    command = [sys.executable, "-m", "tenantcron", "schema", name]
    run = subprocess.run(command, capture_output=True, check=True)
    assert run.stdout == (ROOT / "manifests" / f"{name}.schema.json").read_bytes()


def test_the_schema_of_manifests_is_the_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "tenantcron manifest"
