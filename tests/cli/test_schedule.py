"""`tenantcron schedule`."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.fleet import Shell, manifest, numbered, query

PAUSE = (
    "INSERT INTO tenantcron.schedule_cursor (schedule_id, tenant_id, schedule_name, saga_name,"
    " cron_expr, timezone, tz_version, enabled, provider, definition_id, effective_from, paused_at,"
    " paused_by, paused_reason, paused_until) SELECT id, 'acme', schedule_name, saga_name,"
    " cron_expr, timezone, '2026a', enabled, 'tenant', gen_random_uuid(), effective_from, now(),"
    " 'maria', 'partner is down', {} FROM tenant_acme.tenant_schedule"
    " WHERE schedule_name = 's000'"
)


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    for tenant in ("acme", "beta"):
        text = manifest(tenant, {**numbered(1), "off": "cron: '0 1 * * *', enabled: false"})
        (tmp_path / f"{tenant}.yaml").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    return shell


def test_the_json_lists_the_schedules_of_all_tenants_or_of_one(shell: Shell) -> None:
    all_rows = json.loads(shell("schedule", "list", "--format", "json").out)["schedules"]
    of_beta = json.loads(shell("schedule", "list", "beta", "--format", "json").out)["schedules"]

    assert [(row["tenant"], row["name"]) for row in all_rows] == [
        ("acme", "off"),
        ("acme", "s000"),
        ("beta", "off"),
        ("beta", "s000"),
    ]
    assert of_beta == [row for row in all_rows if row["tenant"] == "beta"]
    off, on = of_beta
    assert on.keys() >= {
        "tenant",
        "name",
        "saga",
        "cron",
        "timezone",
        "enabled",
        "paused",
        "next_executions",
    }
    assert (on["cron"], on["enabled"], len(on["next_executions"])) == ("0 2 * * *", True, 3)
    assert (off["enabled"], off["next_executions"]) == (False, [])


def test_without_tenants_the_list_shows_how_to_create_one(
    tmp_path: Path, database_url: str
) -> None:
    called = Shell(tmp_path, database_url)("schedule", "list")
    assert (called.code, called.out) == (0, "no tenants yet: `tenantcron tenant create ID`\n")


def test_the_text_shows_why_there_is_no_next_execution(shell: Shell) -> None:
    lines = shell("schedule", "list", "acme").out.splitlines()

    assert lines[0] == "acme"
    assert lines[2].split() == ["off", "disabled"]
    assert lines[3].split()[:1] == ["s000"]
    assert "02:00 UTC" in lines[3]


@pytest.mark.parametrize(
    ("until", "shown", "executions"),
    [
        ("NULL", "paused: partner is down (by maria)", 0),
        ("'2099-01-01T12:00:00Z'", "paused: partner is down (by maria until 2099-01-01 12:00", 3),
    ],
)
def test_a_pause_is_shown_everywhere_with_its_reason(
    shell: Shell, database_url: str, until: str, shown: str, executions: int
) -> None:
    query(database_url, PAUSE.replace("{}", until))

    for command in (["schedule", "list", "acme"], ["plan", "."], ["apply-manifest", "."]):
        assert shown in shell(*command).out
    (_, paused) = json.loads(shell("schedule", "list", "acme", "--format", "json").out)["schedules"]
    assert paused["paused"].keys() == {"at", "by", "reason", "until"}
    assert (paused["paused"]["by"], paused["paused"]["reason"]) == ("maria", "partner is down")
    assert len(paused["next_executions"]) == executions
    page = shell.folder / "page.md"
    shell("plan", ".", GITHUB_STEP_SUMMARY=str(page))
    assert ("(by maria)" in page.read_text(encoding="utf-8")) == (executions == 0)


def test_80_columns_still_show_that_a_schedule_is_paused(shell: Shell, database_url: str) -> None:
    query(database_url, PAUSE.replace("{}", "'2099-01-01T12:00:00Z'"))

    shown = shell("schedule", "list", "acme", COLUMNS="80").out

    assert "  paused: partner" in shown


@pytest.mark.parametrize("output", ["text", "json", "csv"])
def test_only_paused_schedules_are_listed(shell: Shell, database_url: str, output: str) -> None:
    none = shell("schedule", "list", "--paused").out
    assert none == "no schedules match\n"
    query(database_url, PAUSE.replace("{}", "NULL"))

    shown = shell("schedule", "list", "--paused", "--format", output, COLUMNS="80").out

    assert "s000" in shown
    assert "partner is down" in shown
    assert "off" not in shown


def test_only_schedules_that_fire_soon_are_listed(shell: Shell) -> None:
    assert shell("schedule", "list", "--until", "1s").out == "no schedules match\n"

    listed = json.loads(shell("schedule", "list", "--until", "+1d", "--format", "json").out)

    assert {schedule["name"] for schedule in listed["schedules"]} == {"s000"}


def test_a_timetable_broken_by_a_manual_change_is_shown_with_its_fault(
    shell: Shell, database_url: str
) -> None:
    for column, value in (("cron_expr", "nonsense"), ("timezone", "Mars/Olympus")):
        query(
            database_url,
            f"UPDATE tenant_acme.tenant_schedule SET {column} = '{value}'"  # noqa: S608 -- the test's own words
            f" WHERE schedule_name = 's000'",
        )
        called = shell("schedule", "list", "--format", "json")
        assert called.code == 0
        broken = json.loads(called.out)["schedules"][1]
        assert broken["next_executions"] == []
        assert broken["fault"]
        assert shell("schedule", "list").code == 0


def test_a_tenant_that_cannot_be_read_is_named_and_the_others_are_listed(
    shell: Shell, database_url: str
) -> None:
    query(database_url, "DROP TABLE {}.tenant_schedule", "tenant_acme")

    text = shell("schedule", "list")
    listed = shell("schedule", "list", "--format", "json")

    assert (text.code, listed.code) == (1, 1)
    assert "cannot be read: relation" in text.out
    answer = json.loads(listed.out)
    assert [row["tenant"] for row in answer["schedules"]] == ["beta", "beta"]
    assert [tenant["tenant"] for tenant in answer["failed"]] == ["acme"]


def test_an_unknown_tenant_is_refused_and_an_invalid_id_is_a_usage_error(shell: Shell) -> None:
    assert shell("schedule", "list", "unknown").code == 1
    assert shell("schedule", "list", "no'body").code == 2


def json_of(shell: Shell, *arguments: str) -> Any:
    called = shell("schedule", *arguments, "--format", "json")
    assert (called.code, called.err) == (0, "")
    return json.loads(called.out)


def test_show_has_the_state_of_a_schedule(shell: Shell) -> None:
    fresh = json_of(shell, "show", "acme/s000")
    assert (fresh["cursor"], fresh["executions"], fresh["paused"]) == (None, [], None)
    assert "has not picked it up yet" in shell("schedule", "show", "acme/s000").out
    made = json_of(shell, "trigger", "acme/s000")["execution"]
    json_of(shell, "pause", "acme/s000", "--reason", "partner is down", "--actor", "maria")

    shown = json_of(shell, "show", "acme/s000")
    text = shell("schedule", "show", "acme/s000").out

    (listed,) = (
        schedule
        for schedule in json_of(shell, "list", "acme")["schedules"]
        if schedule["name"] == "s000"
    )
    assert {key: shown[key] for key in listed} == listed
    assert shown["definition"]["overlap"] == "skip"
    assert shown["cursor"].keys() == {
        "schedule_id",
        "provider",
        "effective_from",
        "next_run_at",
        "last_run_at",
        "consecutive_failures",
        "fault",
    }
    assert [execution["id"] for execution in shown["executions"]] == [made]
    assert shown["paused"]["by"] == "maria"
    assert ["timetable", "0", "2", "*", "*", "*", "in", "UTC"] in map(str.split, text.splitlines())
    assert "partner is down, since " in text
    assert made[:8] in text


def test_show_has_the_last_changes_with_actor_and_reason(shell: Shell, tmp_path: Path) -> None:
    text = manifest("acme", {"s000": "cron: '30 3 * * *'"})
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml", "--actor", "ada").code == 0
    shell("schedule", "pause", "acme/s000", "--reason", "partner is down", "--actor", "maria")
    shell("schedule", "pause", "beta/s000", "--reason", "of others", "--actor", "eve")

    shown = shell("schedule", "show", "acme/s000").out
    data = json.loads(shell("schedule", "show", "acme/s000", "--format", "json").out)

    *_, changes = shown.partition("last changes\n")
    columns = [line.split("UTC", 1)[1].split() for line in changes.splitlines()[1:-1]]
    pause, update, create = columns
    assert pause == ["pause:", "partner", "is", "down", "maria", "cli"]
    assert " ".join(update) == "update: daily.at: 02:00 → 03:30 ada cli"
    assert create[0] == "create"
    assert [
        (change["operation"], change["changed_by"]["id"]) for change in data["changes"][:2]
    ] == [
        ("pause", "maria"),
        ("update", "ada"),
    ]


def test_show_works_without_the_audit_of_a_dropped_tenant(shell: Shell, database_url: str) -> None:
    query(database_url, "DROP TABLE tenant_acme.audit_record CASCADE")
    shown = shell("schedule", "show", "acme/s000")
    assert (shown.code, "last changes" in shown.out) == (0, False)
    assert "0 2 * * * in UTC" in shown.out


def test_a_schedule_that_was_just_applied_can_be_paused_and_resumed(
    shell: Shell, database_url: str
) -> None:
    paused = json_of(shell, "pause", "acme/s000", "--reason", "x", "--until", "2099-01-01T12:00")
    assert paused.keys() == {"tenant", "schedule", "paused", "ended", "pending"}
    assert paused["paused"]["until"] == "2099-01-01T12:00:00+00:00"
    again = shell("schedule", "pause", "acme/s000", "--reason", "y", "--actor", "joe")
    assert again.out.startswith("`acme/s000` is paused: y\n")

    resumed = json_of(shell, "resume", "acme/s000", "--actor", "maria")

    assert resumed.keys() == {"tenant", "schedule", "paused", "passed_over", "next_run_at"}
    assert resumed["next_run_at"].endswith("02:00:00+00:00")
    refused = shell("schedule", "resume", "acme/s000")
    assert (refused.code, "is not paused" in refused.err) == (1, True)
    records = query(
        database_url,
        "SELECT operation, changed_by FROM tenantcron.audit_record WHERE entity_type = 'pause'"
        " ORDER BY id",
    )
    assert [row["operation"] for row in records] == ["pause", "pause", "resume"]
    assert [row["changed_by"] for row in records][1:] == ["joe", "maria"]


def test_a_trigger_without_a_running_scheduler_reports_that_and_does_not_wait(
    shell: Shell,
) -> None:
    called, waiting = (
        shell("schedule", "trigger", "acme/s000", *options) for options in ((), ("--wait",))
    )

    assert (called.code, waiting.code) == (0, 1)
    for answer in (called, waiting):
        assert "no scheduler is running: it starts when one does" in answer.out


def test_a_trigger_shows_how_to_see_its_state(shell: Shell) -> None:
    github = {"GITHUB_ACTIONS": "true", "GITHUB_ACTOR": "octocat"}
    called = shell("schedule", "trigger", "acme/off", "--reason", "rerun", **github)
    assert called.code == 0
    command = called.out.split("`")[-2]
    assert command.startswith("tenantcron execution show ")
    shown = shell(*command.split()[1:])
    assert "runs as github:octocat (pipeline, manual)" in shown.out


def test_operations_on_closed_tenants_or_unknown_schedules_are_refused(
    shell: Shell, database_url: str
) -> None:
    shell("tenant", "suspend", "acme", "--reason", "unpaid")
    before = query(database_url, "SELECT * FROM tenantcron.execution")
    suspended = shell("schedule", "trigger", "acme/s000")
    assert (suspended.code, "tenant resume acme" in suspended.err) == (1, True)
    shell("tenant", "resume", "acme")
    for action in (["show"], ["pause", "--reason", "x"], ["resume"], ["trigger"]):
        for ref, meant in (("acme/s00", "acme/s000"), ("beto/s000", "beta")):
            slip = shell("schedule", *action, ref)
            assert (slip.code, f"did you mean `{meant}`?" in slip.err) == (1, True)
    assert query(database_url, "SELECT * FROM tenantcron.execution") == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "acme"],
        ["show", "Acme/x"],
        ["pause", "acme/s000"],
        ["pause", "acme/s000", "--reason", ""],
        ["pause", "acme/s000", "--reason", "x", "--until", "soon"],
        ["pause", "acme/s000", "--reason", "x", "--until", "2020-01-01T00:00:00Z"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(shell: Shell, arguments: list[str]) -> None:
    called = shell("schedule", *arguments)
    assert (called.code, called.out) == (2, "")
    assert called.err
