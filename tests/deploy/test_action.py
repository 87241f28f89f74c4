"""The GitHub Action: its steps run as on a runner, with a real database and an API on loopback."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.fleet import manifest, query
from support.github_action import ACTION, ROOT, Runner, pull_request, script
from support.github_api import TOKEN, GitHub, github_api

INSTALL = "Install tenantcron"
NIGHTLY = {"nightly": "cron: '0 2 * * *'"}
HASTY = {"hasty": "every: 5m"}


def write(folder: Path, schedules: dict[str, str]) -> None:
    (folder / "manifests").mkdir(exist_ok=True)
    text = manifest("acme", schedules)
    (folder / "manifests" / "acme.yaml").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def served() -> Iterator[GitHub]:
    with github_api() as github:
        yield github


@pytest.fixture
def github(served: GitHub) -> GitHub:
    served.comments.clear()
    served.calls.clear()
    served.is_read_only = False
    return served


@pytest.fixture
def runner(tmp_path: Path, github: GitHub) -> Runner:
    write(tmp_path, NIGHTLY)
    return Runner(tmp_path, github.url, pull_request())


def test_validate_needs_no_database_and_annotates_the_lines(runner: Runner) -> None:
    write(runner.folder, HASTY)
    run = runner(INSTALL)
    assert run.code == 1
    assert "::error title=TC301 interval-below-floor,file=manifests/acme.yaml,line=6" in run.log


def test_a_policy_a_working_directory_and_strict_apply(runner: Runner, tmp_path: Path) -> None:
    write(runner.folder, HASTY | {"both": "cron: '0 2 13 * fri'"})
    (runner.folder / "loose.toml").write_text('[policy]\nminimum_interval = "1m"\n')
    runner = replace(runner, folder=tmp_path / "elsewhere")
    runner.folder.mkdir()
    inputs = {"working_directory": "..", "policy": "loose.toml", "paths": "manifests/acme.yaml\n"}
    lenient = runner(INSTALL, **inputs)
    assert lenient.code == 0
    assert "::warning title=TC204" in lenient.log
    assert runner(INSTALL, strict="true", **inputs).code == 1


def test_a_pull_request_has_one_comment_with_its_latest_plan_until_the_merge_is_applied(
    runner: Runner, github: GitHub, database_url: str
) -> None:
    runner.variables["TENANTCRON_DATABASE_URL"] = database_url

    planned = runner(INSTALL, mode="plan", create_tenants="true")
    assert (planned.code, planned.outputs["changes"]) == (0, "true"), planned.log
    (body,) = github.bodies()
    assert body.startswith("<!-- tenantcron-plan:")
    assert "- `+` create nightly: 0 2 \\* \\* \\* in UTC" in body
    assert "[this run](https://github.example/octo/schedules/actions/runs/4711)" in body
    assert "create nightly" in planned.summary
    # The text of manifests is not read as commands of the workflow.
    (word,) = re.findall(r"^::stop-commands::(\w+)$", planned.log, re.MULTILINE)
    inside = planned.log.partition(f"::stop-commands::{word}\n")[2].partition(f"::{word}::\n")[0]
    assert "+ nightly" in inside

    failed = runner(INSTALL, mode="plan")
    assert (failed.code, "changes" in failed.outputs) == (1, False)
    (body,) = github.bodies()
    assert "apply with --create-tenants" in body

    merged = replace(runner, event={})
    applied = merged(INSTALL, mode="apply", create_tenants="true")
    assert applied.code == 0, applied.log
    assert "create nightly" in applied.summary
    (row,) = query(database_url, "SELECT applied_by, source_ref FROM tenantcron.manifest_version")
    assert row == {"applied_by": "github:octocat", "source_ref": "8afa09a"}

    unchanged = runner(INSTALL, mode="plan")
    assert (unchanged.code, unchanged.outputs["changes"]) == (0, "false")
    (body,) = github.bodies()
    assert "1 unchanged" in body


def test_a_plan_without_a_result_is_shown_as_failed(runner: Runner, github: GitHub) -> None:
    runner.variables["TENANTCRON_DATABASE_URL"] = "postgresql://127.0.0.1:9/x"
    assert runner(INSTALL, mode="plan").code == 3
    (body,) = github.bodies()
    assert "The plan failed before it had a result" in body


def test_a_fork_is_validated_and_neither_planned_nor_commented(
    runner: Runner, github: GitHub
) -> None:
    fork = replace(
        runner,
        event=pull_request(head="mallory/schedules"),
        variables={"TENANTCRON_DATABASE_URL": ""},
    )
    run = fork(INSTALL, mode="plan")
    assert (run.code, github.calls) == (0, [])
    assert "::notice::Pull requests of forks have no secrets" in run.log


def test_inputs_are_never_code_options_or_commands(runner: Runner) -> None:
    hostile = '$(touch owned)`touch owned`"; touch owned #\n--help\n::error::owned'
    run = runner(INSTALL, paths=hostile, policy="$(touch owned)")
    assert run.code == 2
    assert not (runner.folder / "owned").exists()
    assert "usage: tenantcron validate" not in run.log
    assert not re.search("^::error::owned", run.log, re.MULTILINE)


def test_no_script_of_the_action_contains_an_expression() -> None:
    steps = [step for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(steps) == 3
    for step in steps:
        assert "${{" not in step["run"]


JobVariables = Callable[..., None]


@pytest.fixture
def in_job(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> JobVariables:
    """Set the variables of a runner in this process, and some more."""

    def set_variables(**variables: str) -> None:
        temp = runner.folder / ".runner"
        temp.mkdir(exist_ok=True)
        for name, value in (runner.environment(temp) | variables).items():
            monkeypatch.setenv(name, value)

    return set_variables


INPUTS = {
    "INPUT_MODE": "plan",
    "INPUT_PATHS": "manifests/",
    "INPUT_WORKING_DIRECTORY": ".",
    "INPUT_STRICT": "false",
    "INPUT_CREATE_TENANTS": "false",
    "INPUT_COMMENT": "true",
}


def test_all_wrong_inputs_are_reported_at_once(
    in_job: JobVariables, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"INPUT_PATHS": " ", "INPUT_STRICT": "yes", "INPUT_WORKING_DIRECTORY": "none"}
    in_job(**INPUTS | wrong | {"INPUT_MODE": "destroy"})
    assert script("run").main() == 2
    named = re.findall("::error::The input ([a-z-]+)", capsys.readouterr().out)
    assert named == ["mode", "paths", "working-directory", "strict"]


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("apply", "::error::A pull request is not applied"),
        ("plan", "::error::Set the variable TENANTCRON_DATABASE_URL"),
    ],
)
def test_a_mode_that_cannot_work_is_refused(
    in_job: JobVariables, capsys: pytest.CaptureFixture[str], mode: str, problem: str
) -> None:
    in_job(**INPUTS | {"INPUT_MODE": mode, "TENANTCRON_DATABASE_URL": ""})
    assert script("run").main() == 2
    assert problem in capsys.readouterr().out


def test_jobs_and_folders_have_separate_comments(in_job: JobVariables) -> None:
    run = script("run")
    keys = set()
    for variables in ({}, {"GITHUB_JOB": "other"}, {"INPUT_PATHS": "a\nb"}):
        in_job(**INPUTS | variables)
        keys.add(run.comment_key(run.read_inputs()))
    assert len(keys) == 3


Commented = Callable[..., None]


@pytest.fixture
def comment(in_job: JobVariables, tmp_path: Path) -> Commented:
    """Write a comment with a text, as the last step does."""

    def write_comment(text: str, **variables: str) -> None:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        own = {"COMMENT_PAGE": str(page), "COMMENT_KEY": "a", "INPUT_TOKEN": TOKEN}
        in_job(**own | variables)
        assert script("comment").main() == 0

    return write_comment


def test_the_comment_is_found_behind_many_others(comment: Commented, github: GitHub) -> None:
    for number in range(120):
        github.add(f"looks good {number}", "maria")
    comment("first")
    comment("second")
    (body,) = github.bodies()
    assert "second" in body
    assert github.calls == ["GET", "GET", "POST", "GET", "GET", "PATCH"]


def test_a_marker_in_the_comment_of_a_user_is_ignored(comment: Commented, github: GitHub) -> None:
    copied = "<!-- tenantcron-plan:a --> copied"
    github.add(copied, "mallory")
    comment("first")
    assert github.bodies("mallory") == [copied]
    assert len(github.bodies()) == 1


def test_a_plan_without_changes_creates_no_comment(comment: Commented, github: GitHub) -> None:
    comment("nothing to do", PLAN_CHANGES="false")
    assert github.comments == []


def test_a_token_that_may_not_comment_does_not_fail_the_job(
    comment: Commented, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    github.is_read_only = True
    comment("first")
    assert "the job needs `pull-requests: write`" in capsys.readouterr().out


def test_an_api_that_does_not_answer_does_not_fail_the_job(
    comment: Commented, capsys: pytest.CaptureFixture[str]
) -> None:
    comment("first", GITHUB_API_URL="http://127.0.0.1:9")
    assert "::warning::The plan is not a comment" in capsys.readouterr().out


def test_a_long_plan_is_cut_at_a_line_and_does_not_notify_users(
    comment: Commented, github: GitHub
) -> None:
    comment("- @maria\n" * 20_000)
    (body,) = github.bodies()
    assert 60_000 < len(body) <= 65_536
    assert "- @<!-- -->maria\n\n… The rest is in the summary of the run." in body
    assert "@maria" not in body


def test_a_version_that_is_not_a_release_is_refused(runner: Runner) -> None:
    run = runner(version="0.1.0; touch owned")
    assert run.code == 2
    assert "::error::The input version must be a release such as 0.1.0" in run.log


def test_the_shell_script_has_no_findings() -> None:
    checker = shutil.which("shellcheck")
    if checker is None and "SHELL_TESTS" not in os.environ:
        pytest.skip("shellcheck is not installed: Debian has it in the package shellcheck")
    assert checker is not None, "shellcheck is not installed"
    install = ROOT / "deploy" / "action" / "install.sh"
    run = subprocess.run([checker, install], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
