"""SARIF, the format of code scanning: accepted by Microsoft's validator, without secrets."""

import json
import subprocess
from copy import deepcopy
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from support.manifests import MISTAKES
from support.node import node_program

from tenantcron.cli.formats.sarif import sarif_log
from tenantcron.cli.main import main
from tenantcron.manifests.diagnostics import Diagnostic, Problem, Span
from tenantcron.manifests.language.rules import RULES

VALIDATOR = "@microsoft/sarif-multitool-linux/Sarif.Multitool"
# This rule fetches every address of the log, and tests do not leave the machine.
OFFLINE = """\
<?xml version="1.0" encoding="utf-8"?>
<Properties>
  <Properties Key="SARIF2006.UrisShouldBeReachable.Options">
    <Property Key="RuleEnabled" Value="Disabled"
      Type="Microsoft.CodeAnalysis.Sarif.Driver.RuleEnabledState" />
  </Properties>
</Properties>
"""
# Recommendations that we do not follow, and why.
NOTES_WE_ACCEPT = {
    "SARIF2002",  # message templates: our messages are complete sentences
    "SARIF2003",  # the commit: GitHub knows it from the upload, and `validate` does not call git
    "SARIF2012",  # a page for each rule: the rule has its help text, and `explain` shows it
}


def validated(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> Any:
    main(["validate", "--format", "sarif", *map(str, arguments)])
    return json.loads(capsys.readouterr().out)


def findings(logs: dict[str, Any], folder: Path) -> dict[str, set[tuple[str, str]]]:
    """Return what the validator reports for each log: rules with their levels."""
    for name, log in logs.items():
        (folder / f"{name}.sarif").write_text(json.dumps(log), encoding="utf-8")
    (folder / "offline.xml").write_text(OFFLINE, encoding="utf-8")
    options = ["--config", "offline.xml", "--output", "report", "--level", "Error;Warning;Note"]
    command = [str(node_program(VALIDATOR)), "validate", "*.sarif", *options]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (folder / "report").exists(), run.stdout + run.stderr
    (judged,) = json.loads((folder / "report").read_text(encoding="utf-8-sig"))["runs"]
    found: dict[str, set[tuple[str, str]]] = {name: set() for name in logs}
    for result in judged["results"]:
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        uri = place.get("uri") or judged["artifacts"][place["index"]]["location"]["uri"]
        # A warning is the default, which the report omits.
        found[Path(uri).stem].add((result["ruleId"], result.get("level", "warning")))
    return found


def test_the_validator_of_microsoft_has_no_errors_and_no_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(MISTAKES.parent)
    ours = validated(MISTAKES.name, capsys=capsys)
    assert len(ours["runs"][0]["results"]) > 40
    without_version = deepcopy(ours)
    del without_version["runs"][0]["tool"]["driver"]["version"]

    found = findings({"ours": ours, "without_version": without_version}, tmp_path)

    assert found["ours"] <= {(rule, "note") for rule in NOTES_WE_ACCEPT}
    assert found["without_version"] - found["ours"] == {("SARIF2005", "warning")}


def test_every_result_refers_to_its_rule(capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = validated(MISTAKES, capsys=capsys)["runs"]
    driver = run["tool"]["driver"]
    rules = driver["rules"]
    assert driver["version"] == version("tenantcron")
    assert [rule["id"] for rule in rules] == list(RULES)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == rules[result["ruleIndex"]]["defaultConfiguration"]["level"]


def result_for(file: str, text: str, span: Span) -> Any:
    """Return the result of one diagnostic in a file with this text."""
    Path(file).write_text(text, encoding="utf-8")
    problem = Problem("TC106", "no", ("sagas", 0), span, "yes")
    log: Any = sarif_log([[Diagnostic(file, problem)]])
    (result,) = log["runs"][0]["results"]
    return result


def test_a_relative_file_is_a_uri_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = result_for("a b ü#%:?.yaml", "a:\nb: [1,\n 2]\nc:\n", Span(2, 4, 3, 4))
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {
        "uri": "a%20b%20%C3%BC%23%25%3A%3F.yaml",
        "uriBaseId": "%SRCROOT%",
    }
    assert place["region"] == {
        "startLine": 2,
        "startColumn": 4,
        "endLine": 3,
        "endColumn": 4,
        "snippet": {"text": "[1,\n 2]"},
    }
    assert place["contextRegion"] == {
        "startLine": 1,
        "endLine": 4,
        "snippet": {"text": "a:\nb: [1,\n 2]\nc:"},
    }
    assert result["message"] == {"text": "no (yes)."}
    assert result["partialFingerprints"] == {"pointer/v1": "TC106 /sagas/0"}


def test_an_absolute_file_has_no_base(tmp_path: Path) -> None:
    result = result_for(str(tmp_path / "acme.yaml"), "a: 1\n", Span(1, 4, 1, 5))
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": (tmp_path / "acme.yaml").as_uri()}


def test_long_lines_are_not_repeated_in_the_log(tmp_path: Path) -> None:
    text = f"a: {'x' * 5_000}\n"
    result = result_for(str(tmp_path / "acme.yaml"), text, Span(1, 4, 1, 5_004))
    place = result["locations"][0]["physicalLocation"]
    assert "contextRegion" not in place
    assert "snippet" not in place["region"]


def test_no_snippet_shows_a_value_that_looks_like_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text(
        "sagas:\n  - name: a\n    trigger: 'scheduled:a:0 2 * * *'\n    target:\n"
        "      http:\n        url: https://me:hunter2@127.0.0.1/\n        nonsense: 1\n"
        '        headers: {X-Api-Key: "hunter2\n          hunter2"}\n',
        encoding="utf-8",
    )
    log = validated(file, capsys=capsys)
    assert {"TC101", "TC407"} <= {result["ruleId"] for result in log["runs"][0]["results"]}
    assert "X-Api-Key" in json.dumps(log)
    assert "hunter2" not in json.dumps(log)


class Piped(StringIO):
    """Standard input with a manifest."""

    buffer = property(lambda self: self)

    def read(self, _size: int | None = -1, /) -> Any:
        return b"sagas:\n  - name: 1\n"


def test_snippets_of_standard_input_are_of_what_was_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Piped())
    log = validated("-", "--tenant", "acme", capsys=capsys)
    assert "- name: 1" in json.dumps(log)
