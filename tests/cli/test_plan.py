"""`tenantcron plan`: its output, its exit codes, and that it writes nothing."""

import json
import re
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from support.fleet import Shell, footprint, manifest, numbered, query
from support.ports import free_port

FIRST = {
    "billing": "monthly: {day: 1, at: '02:00'}, timezone: Africa/Abidjan",
    "nightly": "cron: '0 3 * * *'",
    "old": "cron: '0 5 * * *'",
}
SECOND = {
    "billing": "monthly: {day: 1, at: '02:00'}, timezone: Africa/Abidjan",
    "nightly": "cron: '0 4 * * *', timeout: 9m",
    "report": "weekly: {on: [mon], at: '08:00'}, timezone: Asia/Kolkata",
}


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    (tmp_path / "acme.yaml").write_text(manifest("acme", FIRST), encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    return shell


def edit(shell: Shell, schedules: dict[str, str]) -> None:
    (shell.folder / "acme.yaml").write_text(manifest("acme", schedules), encoding="utf-8")


def test_the_text_shows_the_planned_changes(shell: Shell) -> None:
    edit(shell, SECOND)

    called = shell("plan", "acme.yaml")

    assert (called.code, called.err) == (0, "")
    shown = re.sub(r"\d{4}-\d\d-\d\d|in \d.*", "…", called.out)
    shown = re.sub(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) …", "…", shown)
    assert [line.rstrip() for line in shown.splitlines()] == [
        "acme  planned",
        "  ~ nightly",
        "      cron: 0 3 * * * → 0 4 * * *",
        "      timeout: 5m → 9m",
        "  - old  0 5 * * * in UTC, saga old",
        "  + report  0 8 * * 1 in Asia/Kolkata, saga report",
        "  schedule  next execution            UTC",
        "  billing   … 02:00 GMT  … 02:00  …",
        "  nightly   … 04:00 UTC  … 04:00  …",
        "  report    … 08:00 IST  … 02:30  …",
        "",
        "1 tenant: 1 to create, 1 to change, 1 to delete, 1 unchanged",
    ]


def test_json_has_the_promised_keys(shell: Shell) -> None:
    edit(shell, SECOND)

    called = shell("plan", "acme.yaml", "--format", "json")

    answer = json.loads(called.out)
    assert answer["summary"] == {
        "tenants": 1,
        "create": 1,
        "update": 1,
        "delete": 1,
        "unchanged": 1,
        "failed": 0,
    }
    (tenant,) = answer["tenants"]
    assert tenant.keys() >= {
        "tenant",
        "status",
        "manifest_version",
        "changes",
        "schedules",
        "diagnostics",
    }
    assert (tenant["tenant"], tenant["status"], tenant["manifest_version"]) == (
        "acme",
        "planned",
        1,
    )
    update, delete, create = tenant["changes"]
    assert update.keys() == {"action", "schedule", "fields", "before", "after", "form"}
    assert update["fields"] == ["cron_expr", "definition.timeout"]
    assert (update["before"]["cron_expr"], update["after"]["cron_expr"]) == (
        "0 3 * * *",
        "0 4 * * *",
    )
    assert update["after"].keys() == {
        "schedule_name",
        "saga_name",
        "cron_expr",
        "timezone",
        "enabled",
        "definition",
    }
    assert (delete["action"], delete["after"]) == ("delete", None)
    assert (create["action"], create["fields"], create["before"]) == ("create", [], None)


def test_next_executions_are_iso_times_of_the_schedules_zone(shell: Shell) -> None:
    edit(shell, SECOND)

    (tenant,) = json.loads(shell("plan", "acme.yaml", "--format", "json").out)["tenants"]

    report = tenant["schedules"][2]
    assert report.keys() >= {
        "name",
        "saga",
        "cron",
        "timezone",
        "enabled",
        "paused",
        "next_executions",
    }
    assert (report["name"], report["cron"], report["paused"]) == ("report", "0 8 * * 1", None)
    times = [datetime.fromisoformat(time) for time in report["next_executions"]]
    assert len(times) == 3
    assert times == sorted(times)
    assert times[0] > datetime.now(ZoneInfo("UTC"))
    for time, text in zip(times, report["next_executions"], strict=True):
        assert text.endswith("T08:00:00+05:30")
        assert time.weekday() == 0


def test_a_plan_writes_nothing(shell: Shell, database_url: str) -> None:
    edit(shell, SECOND)
    (shell.folder / "beta.yaml").write_text(manifest("beta", FIRST), encoding="utf-8")
    before = footprint(database_url)

    for command in (["plan"], ["apply-manifest", "--dry-run"]):
        called = shell(*command, "acme.yaml", "beta.yaml", "--create-tenants", "--format", "json")
        assert [tenant["status"] for tenant in json.loads(called.out)["tenants"]] == ["planned"] * 2

    assert footprint(database_url) == before
    assert not query(database_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'tenant_beta'")


def test_the_detailed_exit_code_distinguishes_no_change_error_and_changes(shell: Shell) -> None:
    def code(*options: str) -> int:
        return shell("plan", "acme.yaml", *options).code

    assert code("--detailed-exitcode") == 0
    edit(shell, SECOND)
    assert (code("--detailed-exitcode"), code()) == (2, 0)
    edit(shell, {"nightly": "cron: nonsense"})
    assert (code("--detailed-exitcode"), code()) == (1, 1)
    (shell.folder / "acme.yaml").unlink()
    assert (code("--detailed-exitcode"), code()) == (3, 2)


@pytest.mark.parametrize(
    "options",
    [
        ("acme.yaml", "--detailed-exitcode", "--nonsense"),
        ("acme.yaml", "--detailed-exit-code"),
        ("acme.yaml", "--detialed-exitcode"),
        ("--detailed-exitcode",),
        ("missing.yaml", "--detailed-exitcode"),
        ("acme.yaml", "--detailed-exitcode", "--policy", "missing.toml"),
        ("acme.yaml", "--detailed-exitcode", "--server", "nonsense"),
        ("acme.yaml", "--detailed-exitcode", "--format", "xml"),
    ],
)
def test_wrong_usage_is_neither_changes_nor_a_failed_tenant(
    shell: Shell, options: tuple[str, ...]
) -> None:
    assert shell("plan", *options).code == 3


def test_a_plan_without_a_database_is_neither_changes_nor_a_failed_tenant(shell: Shell) -> None:
    away = f"postgresql://x@127.0.0.1:{free_port()}/x"
    called = shell("plan", "acme.yaml", "--detailed-exitcode", TENANTCRON_DATABASE_URL=away)
    assert called.code == 3
    assert called.err.startswith("error: cannot connect to ")


def test_drift_is_shown_with_its_actor(shell: Shell, database_url: str) -> None:
    query(
        database_url,
        "UPDATE {}.tenant_schedule SET cron_expr = '0 9 * * *' WHERE schedule_name = 'nightly'",
        "tenant_acme",
    )

    text = shell("plan", "acme.yaml").out
    (tenant,) = json.loads(shell("plan", "acme.yaml", "--format", "json").out)["tenants"]

    drift = "! drift: nightly was changed: cron 0 3 * * * → 0 9 * * *, by postgres (sql) at "
    assert drift in text
    (entry,) = tenant["drift"]
    assert (entry["schedule"], entry["fields"]) == ("nightly", ["cron_expr"])
    assert (entry["applied"]["cron_expr"], entry["live"]["cron_expr"]) == (
        "0 3 * * *",
        "0 9 * * *",
    )
    assert (entry["changed_by"]["id"], entry["changed_by"]["source"]) == ("postgres", "sql")
    assert datetime.fromisoformat(entry["changed_by"]["at"]).tzinfo is not None


def test_escapes_in_manually_edited_rows_do_not_reach_the_terminal(
    shell: Shell, database_url: str
) -> None:
    query(
        database_url,
        "UPDATE {}.tenant_schedule SET schedule_name = E'evil\\x1b[2J', cron_expr = E'\\x1b[2J'"
        " WHERE schedule_name = 'nightly'",
        "tenant_acme",
    )

    for command in (["plan", "acme.yaml"], ["schedule", "list"]):
        called = shell(*command)
        assert called.code == 0
        assert "evil" in called.out
        assert "\x1b" not in called.out


def test_a_large_fleet_shows_only_tenants_with_changes(shell: Shell) -> None:
    for number in range(21):
        file = shell.folder / f"t{number}.yaml"
        file.write_text(manifest(f"t{number}", numbered(1)), encoding="utf-8")
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    edit(shell, SECOND)

    page = shell.folder / "page.md"
    called = shell("plan", ".", GITHUB_STEP_SUMMARY=str(page))

    assert "acme  planned" in called.out
    assert "t1  unchanged" not in called.out
    assert "acme: planned" in page.read_text(encoding="utf-8")
    assert "t1: unchanged" not in page.read_text(encoding="utf-8")
    assert called.out.splitlines()[-1].startswith("22 tenants: 1 to create")
