"""Workflows of GitHub Actions: our own, and those that the pages show, are safe to copy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from support.pages import BLOCK, PAGES, page_id
from support.tools import run_tool

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-actions": [ACTION],
    "github-issue-forms": [
        *GITHUB.glob("ISSUE_TEMPLATE/bug.yml"),
        *GITHUB.glob("ISSUE_TEMPLATE/feature.yml"),
    ],
    "github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "dependabot": [GITHUB / "dependabot.yml"],
}


def shown_workflows() -> list[tuple[str, str]]:
    """Return the workflows of the pages, each with the page's name."""
    return [
        (page_id(page), match["body"])
        for page in PAGES
        for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
        if match["language"] == "yaml" and "\njobs:" in match["body"]
    ]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_files_for_github_are_valid_by_their_schemas(schema: str) -> None:
    assert SCHEMAS[schema]
    checker = Path(sys.executable).with_name("check-jsonschema")
    command = [str(checker), "--builtin-schema", f"vendor.{schema}"]
    run = subprocess.run([*command, *SCHEMAS[schema]], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_our_workflows_have_no_findings() -> None:
    """Unpinned actions, kept credentials, wide permissions and injections are findings."""
    run = run_tool("zizmor", "--offline", "--persona", "pedantic", *WORKFLOWS, ACTION)
    assert run.returncode == 0, run.stdout


def test_our_workflow_tests_every_python_that_is_supported() -> None:
    workflow = YAML(typ="safe").load((GITHUB / "workflows" / "test.yml").read_text("utf-8"))
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    classifiers = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert tested == ["3.11", "3.12", "3.13"]
    for version in tested:
        assert f'"Programming Language :: Python :: {version}"' in classifiers


def test_our_workflow_requires_the_tests_that_need_programs() -> None:
    workflow = YAML(typ="safe").load((GITHUB / "workflows" / "test.yml").read_text("utf-8"))
    commands = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert [command.split()[-1] for command in commands] == [".ci/run"]
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "exec make test"


def test_the_workflows_of_the_pages_have_no_findings(tmp_path: Path) -> None:
    shown = shown_workflows()
    assert len(shown) >= 4
    files = []
    for number, (page, body) in enumerate(shown):
        files.append(tmp_path / f"{page.replace('/', '-')}-{number}.yml")
        files[-1].write_text(body, encoding="utf-8")
    run = run_tool("zizmor", "--offline", *files)
    assert run.returncode == 0, run.stdout


def uses_of_our_action() -> list[tuple[str, dict[str, str]]]:
    """Return the inputs that workflows of the pages give to our action, with the page's name."""
    return [
        (page, step.get("with", {}))
        for page, body in shown_workflows()
        for job in YAML(typ="safe").load(body)["jobs"].values()
        for step in job["steps"]
        if step.get("uses", "").startswith("platform/tenantcron@")
    ]


def test_the_workflows_of_the_pages_give_our_action_inputs_that_it_has() -> None:
    inputs = YAML(typ="safe").load(ACTION.read_text(encoding="utf-8"))["inputs"]
    used = uses_of_our_action()
    assert {given.get("mode", "validate") for _, given in used} == {"validate", "plan", "apply"}
    for page, given in used:
        assert given.keys() <= inputs.keys(), page


def test_the_page_describes_every_input_of_our_action() -> None:
    inputs = YAML(typ="safe").load(ACTION.read_text(encoding="utf-8"))["inputs"]
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    for name, entry in inputs.items():
        default = f"`{entry['default']}`" if entry["default"] else "none"
        assert f"| `{name}` | {default} |" in page


def test_an_unpinned_action_is_a_finding(tmp_path: Path) -> None:
    text = WORKFLOWS[-1].read_text(encoding="utf-8")
    unpinned = tmp_path / "unpinned.yml"
    unpinned.write_text(
        text.replace("@8e8c483db84b4bee98b60c0593521ed34d9990e8 # v6.0.1", "@v6"), encoding="utf-8"
    )
    run = run_tool("zizmor", "--offline", unpinned)
    assert run.returncode != 0
    assert "unpinned-uses" in run.stdout
