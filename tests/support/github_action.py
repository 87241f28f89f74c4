"""Runs the steps of action.yml as a runner of GitHub does: with its variables and its files."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from support.github_api import REPOSITORY, TOKEN

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
_EXPRESSION = re.compile(r"\$\{\{ (\S+) \}\}")
_ALWAYS = "${{ !cancelled() }}"


@dataclass(frozen=True, slots=True)
class ActionRun:
    """The result of all steps."""

    code: int
    log: str
    summary: str
    outputs: dict[str, str]


@dataclass(slots=True)
class Runner:
    """A job in a repository."""

    folder: Path
    api_url: str = "http://127.0.0.1:9"
    event: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def __call__(self, *skipped: str, **inputs: str) -> ActionRun:
        """Run the steps except those with these names."""
        values = {name: entry["default"] for name, entry in ACTION["inputs"].items()}
        values |= {name.replace("_", "-"): value for name, value in inputs.items()}
        context = {f"inputs.{name}": value for name, value in values.items()}
        context["github.token"] = TOKEN
        temp = self.folder / ".runner"
        temp.mkdir(exist_ok=True)
        summary = temp / "summary"
        summary.write_text("", encoding="utf-8")
        code, log, outputs = 0, "", {}
        for number, step in enumerate(ACTION["runs"]["steps"]):
            is_due = code == 0 or step.get("if") == _ALWAYS
            if "run" not in step or step["name"] in skipped or not is_due:
                continue
            output = temp / f"output{number}"
            output.write_text("", encoding="utf-8")
            own = {name: _resolved(text, context) for name, text in step["env"].items()}
            files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
            run = self._run(step["run"], own | files, temp)
            log += run.stdout + run.stderr
            code = code or run.returncode
            for line in output.read_text(encoding="utf-8").splitlines():
                name, _, value = line.partition("=")
                context[f"steps.{step['id']}.outputs.{name}"] = value
                outputs[name] = value
        return ActionRun(code, log, summary.read_text(encoding="utf-8"), outputs)

    def environment(self, temp: Path) -> dict[str, str]:
        """Return the variables that a runner sets."""
        event = temp / "event.json"
        event.write_text(json.dumps(self.event), encoding="utf-8")
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(temp),
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_ACTOR": "octocat",
            "GITHUB_API_URL": self.api_url,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_JOB": "plan",
            "GITHUB_PATH": str(temp / "path"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "4711",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_SHA": "8afa09a",
            "GITHUB_WORKFLOW": "schedules",
            "RUNNER_TEMP": str(temp),
        } | self.variables

    def _run(
        self, command: str, variables: dict[str, str], temp: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run a step with nothing of the environment of the tests but the path."""
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment(temp) | variables,
            capture_output=True,
            text=True,
            check=False,
        )


def script(name: str) -> Any:
    """Load a script of the action, to call its functions in this process."""
    file = ROOT / "deploy" / "action" / f"{name}.py"
    spec = spec_from_file_location(f"action_{name}", file)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    # Its dataclasses look it up there.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _resolved(text: str, context: dict[str, str]) -> str:
    """Replace expressions; an output that was not set is empty."""
    return _EXPRESSION.sub(lambda match: context.get(match[1], ""), text)


def pull_request(number: int = 7, head: str = REPOSITORY) -> dict[str, Any]:
    """Return the event of a pull request, from a branch or from a fork."""
    return {"pull_request": {"number": number, "head": {"repo": {"full_name": head}}}}
