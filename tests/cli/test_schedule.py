"""`tenantcron schedule list`."""

import json
from pathlib import Path

import pytest
from support.fleet import Shell, manifest, numbered, query

PAUSE = (
    "INSERT INTO tenantcron.schedule_cursor (schedule_id, tenant_id, schedule_name, saga_name,"
    " cron_expr, timezone, tz_version, enabled, definition, paused_at, paused_by, paused_reason,"
    " paused_until) SELECT id, 'acme', schedule_name, saga_name, cron_expr, timezone, '2026a',"
    " enabled, definition, now(), 'maria', 'partner is down', {} FROM tenant_acme.tenant_schedule"
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


def test_json_lists_the_schedules_of_all_tenants_or_of_one(shell: Shell) -> None:
    everybody = json.loads(shell("schedule", "list", "--format", "json").out)["schedules"]
    one = json.loads(shell("schedule", "list", "beta", "--format", "json").out)["schedules"]

    assert [(row["tenant"], row["name"]) for row in everybody] == [
        ("acme", "off"),
        ("acme", "s000"),
        ("beta", "off"),
        ("beta", "s000"),
    ]
    assert one == [row for row in everybody if row["tenant"] == "beta"]
    off, on = one
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


def test_text_says_why_there_is_no_next_execution(shell: Shell) -> None:
    lines = shell("schedule", "list", "acme").out.splitlines()

    assert lines[0] == "acme"
    assert lines[2].split() == ["off", "disabled"]
    assert lines[3].split()[:1] == ["s000"]
    assert "02:00 UTC" in lines[3]


@pytest.mark.parametrize(
    ("until", "shown", "executions"),
    [
        ("NULL", "paused by maria: partner is down", 0),
        ("'2099-01-01T12:00:00Z'", "paused until 2099-01-01 12:00 UTC by maria: partner is", 3),
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
    assert ("paused by maria" in page.read_text(encoding="utf-8")) == (executions == 0)


def test_a_timetable_that_a_hand_has_broken_is_shown_as_such(
    shell: Shell, database_url: str
) -> None:
    for column, value in (("cron_expr", "nonsense"), ("timezone", "Mars/Olympus")):
        query(
            database_url,
            f"UPDATE tenant_acme.tenant_schedule SET {column} = '{value}'"  # noqa: S608
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
    assert [one["tenant"] for one in answer["failed"]] == ["acme"]


def test_an_unknown_tenant_is_refused_and_a_bad_id_is_wrong_use(shell: Shell) -> None:
    assert shell("schedule", "list", "nobody").code == 1
    assert shell("schedule", "list", "no'body").code == 2
