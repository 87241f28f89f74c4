"""`tenantcron apply-manifest`: its output, its actor, and the job summary of a pipeline."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.fleet import (
    Shell,
    audit,
    footprint,
    manifest,
    names,
    numbered,
    query,
    versions,
)


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    (tmp_path / "acme.yaml").write_text(manifest("acme", numbered(2)), encoding="utf-8")
    return Shell(tmp_path, database_url)


def test_the_json_reports_the_changes(shell: Shell, database_url: str) -> None:
    called = shell("apply-manifest", "acme.yaml", "--create-tenants", "--format", "json")

    assert (called.code, called.err) == (0, "")
    answer = json.loads(called.out)
    (tenant,) = answer["tenants"]
    assert (tenant["status"], tenant["manifest_version"]) == ("applied", 1)
    assert [(change["action"], change["schedule"]) for change in tenant["changes"]] == [
        ("create", "s000"),
        ("create", "s001"),
    ]
    assert [schedule["name"] for schedule in tenant["schedules"]] == names(database_url, "acme")
    assert all(len(schedule["next_executions"]) == 3 for schedule in tenant["schedules"])
    assert answer["summary"]["create"] == 2

    again = json.loads(shell("apply-manifest", "acme.yaml", "--format", "json").out)
    (tenant,) = again["tenants"]
    assert (tenant["status"], tenant["manifest_version"], tenant["changes"]) == ("unchanged", 1, [])
    assert again["summary"]["unchanged"] == 2


def test_the_text_reports_the_changes(shell: Shell) -> None:
    called = shell("apply-manifest", "acme.yaml", "--create-tenants")

    lines = called.out.splitlines()
    assert lines[0] == "acme  applied, version 1"
    assert lines[1] == "  + s000  0 2 * * * in UTC, saga s000"
    assert lines[-1] == "1 tenant: 2 created, 0 changed, 0 deleted, 0 unchanged"


@dataclass(frozen=True, slots=True)
class Case:
    """An environment, and the actor that an apply in it records."""

    who: tuple[str, str, str]
    variables: dict[str, str]
    options: tuple[str, ...] = ()
    ref: str | None = None


GITHUB = {"GITHUB_ACTIONS": "true", "GITHUB_ACTOR": "octocat", "GITHUB_SHA": "3f2a9c1"}
GITLAB = {"GITLAB_CI": "true", "GITLAB_USER_LOGIN": "ana", "CI_COMMIT_SHA": "77"}
CASES = {
    "login": Case(("joe", "human", "cli"), {"LOGNAME": "joe"}),
    "option": Case(("maria", "human", "cli"), {"LOGNAME": "joe"}, ("--actor", "maria")),
    "github": Case(("github:octocat", "pipeline", "github-actions"), GITHUB, ref="3f2a9c1"),
    "gitlab": Case(
        ("gitlab:ana", "pipeline", "gitlab-ci"), GITLAB, ("--source-ref", "v1.2"), ref="v1.2"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_actor_of_an_apply_is_recorded(shell: Shell, database_url: str, case: Case) -> None:
    options = ("acme.yaml", "--create-tenants", *case.options)

    assert shell("apply-manifest", *options, **case.variables).code == 0

    records = audit(database_url, "acme")
    assert len(records) == 2
    for record in records:
        assert (record["changed_by"], record["actor_type"], record["actor_source"]) == case.who
        assert record["authenticated"] is False
    (version,) = versions(database_url, "acme")
    assert (version["applied_by"], version["source_ref"]) == (case.who[0], case.ref)


@pytest.mark.parametrize(
    "options",
    [
        ["--max-deletes", "-1"],
        ["--max-deletes", "all"],
        ["--source-ref", "x" * 256],
        ["--source-ref", "a\nb"],
        ["--format", "xml"],
        ["--policy", "missing.toml"],
    ],
    ids=lambda options: options[0] + options[1][:8],
)
def test_a_wrong_option_is_wrong_use_and_changes_nothing(
    shell: Shell, database_url: str, options: list[str]
) -> None:
    before = footprint(database_url)

    called = shell("apply-manifest", "acme.yaml", "--create-tenants", *options)

    assert (called.code, called.out) == (2, "")
    assert "error: " in called.err
    assert "Traceback" not in called.err
    assert footprint(database_url) == before


def test_a_missing_file_is_a_usage_error(shell: Shell) -> None:
    called = shell("apply-manifest", "missing.yaml")

    assert called.code == 2
    assert called.err == "error: missing.yaml: no such file\n"


def test_deletes_beyond_the_guard_are_refused_with_their_names(
    shell: Shell, database_url: str
) -> None:
    file = shell.folder / "acme.yaml"
    file.write_text(manifest("acme", numbered(8)), encoding="utf-8")
    shell("apply-manifest", "acme.yaml", "--create-tenants")
    file.write_text(manifest("acme", {}), encoding="utf-8")

    refused = shell("apply-manifest", "acme.yaml")

    assert refused.code == 1
    assert (
        "error[TC603] 8 of 8 schedules would be deleted, the limit is 5: s000, s001," in refused.out
    )
    assert names(database_url, "acme") == list(numbered(8))
    assert shell("apply-manifest", "acme.yaml", "--max-deletes", "8").code == 0
    assert names(database_url, "acme") == []


def test_the_summary_page_of_a_pipeline_is_appended_to_and_escaped(
    shell: Shell, database_url: str
) -> None:
    page = shell.folder / "summary.md"
    page.write_text("# before\n", encoding="utf-8")
    options = ("acme.yaml", "--create-tenants", "--format", "json")

    shell("apply-manifest", *options, GITHUB_STEP_SUMMARY=str(page))

    text = page.read_text(encoding="utf-8")
    assert text.startswith("# before\n### tenantcron apply-manifest\n")
    assert "\n1 tenant · " in text
    assert "#### acme: applied" in text
    assert "- `+` create s000" in text
    assert "| s001 | " in text

    evil = "E'x` <img src=y> | **b**'"
    query(
        database_url,
        f"UPDATE {{}}.tenant_schedule SET schedule_name = {evil}"  # noqa: S608 -- a constant
        " WHERE schedule_name = 's001'",
        "tenant_acme",
    )
    shell("plan", "acme.yaml", GITHUB_STEP_SUMMARY=str(page))
    text = page.read_text(encoding="utf-8")
    assert "- `-` delete x\\` \\<img src=y\\> \\| \\*\\*b\\*\\*" in text


def test_a_job_summary_stays_below_the_limit_of_the_pipeline(shell: Shell) -> None:
    long = "x" * 120
    for number in range(60):
        text = manifest(
            f"t{number}", {f"{name}-{long}": cron for name, cron in numbered(20).items()}
        )
        (shell.folder / f"t{number}.yaml").write_text(text, encoding="utf-8")
    page = shell.folder / "summary.md"

    shell("plan", ".", "--create-tenants", GITHUB_STEP_SUMMARY=str(page))

    assert page.stat().st_size < 1024 * 1024
    assert page.read_text(encoding="utf-8").rstrip().endswith("more tenants")


def test_a_job_summary_that_cannot_be_written_does_not_fail_the_apply(
    shell: Shell, database_url: str
) -> None:
    page = str(shell.folder / "no" / "summary.md")

    called = shell("apply-manifest", "acme.yaml", "--create-tenants", GITHUB_STEP_SUMMARY=page)

    assert called.code == 0
    assert called.err.startswith("warning: ")
    assert names(database_url, "acme") == list(numbered(2))


def test_warnings_do_not_keep_a_manifest_from_being_applied(
    shell: Shell, database_url: str
) -> None:
    text = manifest("acme", {"odd": "cron: '0 2 13 * 5'"})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")

    called = shell("apply-manifest", "acme.yaml", "--create-tenants", "--format", "json")

    (tenant,) = json.loads(called.out)["tenants"]
    assert (called.code, tenant["status"]) == (0, "applied")
    assert [diagnostic["code"] for diagnostic in tenant["diagnostics"]] == ["TC204"]
    assert names(database_url, "acme") == ["odd"]


def test_the_tenant_can_be_named_by_the_command(shell: Shell, database_url: str) -> None:
    text = manifest("acme", numbered(1)).replace("tenant: acme\n", "")
    (shell.folder / "shared.yaml").write_text(text, encoding="utf-8")

    called = shell("apply-manifest", "shared.yaml", "--tenant", "beta", "--create-tenants")

    assert called.code == 0
    assert names(database_url, "beta") == ["s000"]


def test_all_records_of_a_command_have_the_same_correlation_id(
    tmp_path: Path, database_url: str
) -> None:
    shell = Shell(tmp_path, database_url)
    for tenant in ("acme", "umbra"):
        text = manifest(tenant, numbered(2))
        (tmp_path / f"{tenant}.yaml").write_text(text, encoding="utf-8")

    assert shell("apply-manifest", ".", "--create-tenants").code == 0

    statement = "SELECT DISTINCT correlation_id FROM {}.audit_record"
    acme, umbra = (query(database_url, statement, f"tenant_{name}") for name in ("acme", "umbra"))
    assert acme == umbra
    assert len(acme) == 1
    assert acme[0]["correlation_id"] is not None
