"""`tenantcron history`."""

import json
from pathlib import Path

import pytest
from support.fleet import NIGHTLY, Called, Shell, manifest


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    shell = Shell(tmp_path, database_url)
    for timetable in (NIGHTLY, "cron: '0 3 * * *'"):
        text = manifest("acme", {"nightly": timetable, "weekly": "cron: '0 4 * * 1'"})
        (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
        assert shell("apply-manifest", ".", "--create-tenants", "--actor", "maria").code == 0
    pause = ("schedule", "pause", "acme/nightly", "--reason", "partner is down", "--actor", "joe")
    assert shell(*pause).code == 0
    assert shell("tenant", "suspend", "acme", "--reason", "unpaid", "--actor", "joe").code == 0
    return shell


def shown(called: Called) -> list[str]:
    """Return the lines without their header, times and runs of spaces."""
    assert (called.code, called.err) == (0, "")
    lines = called.out.splitlines()[1:]
    return [" ".join((line if line.startswith("  ") else line[23:]).split()) for line in lines]


def test_a_schedule_shows_its_changes_and_pauses_newest_first(shell: Shell) -> None:
    assert shown(shell("history", "acme/nightly")) == [
        "joe cli pause schedule acme/nightly",
        "partner is down",
        "maria cli update schedule acme/nightly",
        "daily.at: 02:00 → 03:00",
        "maria cli create schedule acme/nightly",
    ]


def test_a_schedule_shows_the_settings_that_changed(shell: Shell) -> None:
    text = manifest("acme", {"weekly": "cron: '0 4 * * 1', retry: {max_attempts: 7}"})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
    assert shell("apply-manifest", ".", "--actor", "eve").code == 0

    assert shown(shell("history", "acme/weekly"))[:2] == [
        "eve cli update schedule acme/weekly",
        "retry.max_attempts: 3 → 7",
    ]


def test_all_tenants_show_their_changes_in_one_list(shell: Shell) -> None:
    assert shell("tenant", "create", "beta", "--actor", "eve").code == 0
    assert shell("tenant", "set", "beta", "--max-schedules", "5", "--actor", "eve").code == 0

    assert shown(shell("history", "--limit", "4"))[:6] == [
        "eve cli update tenant beta",
        "max_schedules: nothing → 5",
        "eve cli create tenant beta",
        "joe cli update tenant acme",
        "status: active → suspended",
        "status_reason: nothing → unpaid",
    ]
    everything = json.loads(shell("history", "--limit", "1000", "--format", "json").out)
    found = [(record["tenant"], record["entity_id"]) for record in everything["audit_records"]]
    assert len(found) == len(everything["audit_records"])
    assert {("acme", "nightly"), ("acme", "weekly"), ("beta", "beta")} <= set(found)


@pytest.mark.parametrize("scope", [(), ("acme",), ("acme/nightly",)])
def test_changes_after_until_are_not_shown(shell: Shell, scope: tuple[str, ...]) -> None:
    assert shell("history", *scope, "--until", "today").out == "no changes\n"
    assert shell("history", *scope, "--since", "today", "--until", "+1m").out != "no changes\n"


def test_80_columns_show_changes_in_full(shell: Shell) -> None:
    lines = shell("history", COLUMNS="80").out.splitlines()

    assert "    daily.at: 02:00 → 03:00" in lines
    assert [line for line in lines if len(line) > 80 or "…" in line] == []


def test_80_columns_show_the_name_of_a_schedule_and_drop_the_source(shell: Shell) -> None:
    text = manifest("acme", {"monthly_statements": NIGHTLY})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
    apply = ("apply-manifest", ".", "--actor", "github:octocat", "--max-deletes", "5")
    assert shell(*apply).code == 0

    head, *lines = shell("history", "acme", COLUMNS="80").out.splitlines()

    assert head.split() == ["when", "by", "change"]
    named = [line for line in lines if "create schedule acme/monthly" in line]
    assert named[0].endswith("create schedule acme/monthly_statements")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            "monthly: {day: 1, at: '02:00'}",
            "monthly: {day: 1, at: '03:00'}",
            "monthly.at: 02:00 → 03:00",
        ),
        ("every: 15m", "every: 30m", "every: 15m → 30m"),
        ("cron: '5 2 * * *'", "cron: '5 2-4 * * *'", "cron: 5 2 * * * → 5 2-4 * * *"),
    ],
)
def test_a_changed_timetable_is_shown_in_the_words_of_a_manifest(
    shell: Shell, before: str, after: str, words: str
) -> None:
    for timetable in (before, after):
        text = manifest("acme", {"nightly": NIGHTLY, "weekly": timetable})
        (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
        assert shell("apply-manifest", ".").code == 0

    assert shown(shell("history", "acme/weekly", "--limit", "1"))[1:] == [words]


def test_changed_limits_are_named(shell: Shell) -> None:
    limits = ("limits", "--max-concurrent", "3", "--max-concurrent-per-tenant", "2")
    assert shell(*limits, "--actor", "joe").code == 0

    assert shown(shell("history", "--limit", "1")) == [
        "joe cli update limits of the cluster",
        "max concurrent, set by an operator: nothing → 3",
        "max concurrent per tenant, set by an operator: nothing → 2",
    ]


def test_operations_on_executions_name_the_schedule(shell: Shell) -> None:
    assert shell("tenant", "resume", "acme").code == 0
    triggered = shell("schedule", "trigger", "acme/weekly", "--format", "json")
    execution = json.loads(triggered.out)["execution"]
    for action in ("cancel", "retry"):
        assert shell("execution", action, execution, "--actor", "joe").code == 0

    assert shown(shell("history", "acme", "--limit", "2")) == [
        f"joe cli retry execution {execution[:8]}",
        "acme/weekly",
        f"joe cli cancel execution {execution[:8]}",
        "acme/weekly",
        "cancelled by joe",
    ]


@pytest.mark.parametrize("arguments", [("acme",), ("--tenant", "acme")])
def test_a_tenant_shows_all_its_changes(shell: Shell, arguments: tuple[str, ...]) -> None:
    lines = shown(shell("history", *arguments))

    assert lines[0] == "joe cli update tenant acme"
    assert {line.split("cli ", 1)[1] for line in lines if " cli " in line} == {
        "update tenant acme",
        "create tenant acme",
        "pause schedule acme/nightly",
        "update schedule acme/nightly",
        "create schedule acme/nightly",
        "create schedule acme/weekly",
    }


def test_the_json_is_that_of_the_api_and_is_limited(shell: Shell) -> None:
    called = shell("history", "acme", "--limit", "2", "--format", "json")

    records = json.loads(called.out)["audit_records"]
    assert [record["entity_type"] for record in records] == ["tenant", "pause"]
    assert records[0]["changed_by"]["id"] == "joe"


def test_changes_before_since_are_not_shown(shell: Shell) -> None:
    for scope in ("acme", "acme/nightly"):
        assert shell("history", scope, "--since", "+1h").out == "no changes\n"


def test_a_deleted_schedule_still_has_its_history(shell: Shell) -> None:
    text = manifest("acme", {"weekly": "cron: '0 4 * * 1'"})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
    assert shell("apply-manifest", ".", "--max-deletes", "5", "--actor", "ann").code == 0

    assert "ann cli delete schedule acme/nightly" in shown(shell("history", "acme/nightly"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("acme/nightl",), 1, "did you mean `acme/nightly`?"),
        (("acm",), 1, "did you mean `acme`?"),
    ],
)
def test_an_unknown_tenant_or_schedule_is_an_error(
    shell: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    called = shell("history", *arguments)

    assert called.code == code
    assert words in called.err
