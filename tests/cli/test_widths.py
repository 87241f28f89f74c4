"""Output of the commands in narrow terminals."""

import json
from pathlib import Path

import pytest
from support.cursors import run
from support.fleet import Shell, manifest

REASON = "the partner system answered with an error that takes a long sentence to describe"
LISTS = ("execution list", "schedule list", "schedule show acme/monthly_statements", "tenant list")


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    text = manifest("acme", {"monthly_statements": "cron: '0 2 1 * *'"})
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    assert shell("schedule", "trigger", "acme/monthly_statements").code == 0
    run(
        database_url,
        "UPDATE tenantcron.execution SET state = 'SKIPPED', reason = %s, finished_at = now()",
        REASON,
    )
    assert shell("tenant", "suspend", "acme", "--reason", REASON).code == 0
    assert shell("token", "create", "ci", "--role", "deployer", "--tenant", "acme").code == 0
    return shell


def execution_id(shell: Shell) -> str:
    found = json.loads(shell("execution", "list", "--format", "json").out)
    return str(found["executions"][0]["id"])[:8]


def test_80_columns_show_the_id_and_the_state_in_full_and_shorten_the_reason(
    shell: Shell,
) -> None:
    row = shell("execution", "list", COLUMNS="80").out.splitlines()[1]

    assert row.startswith(f"{execution_id(shell)}  ")
    assert " SKIPPED " in row
    assert row.endswith("…")
    assert len(row) <= 80


def test_60_columns_show_executions_as_a_list_with_the_entire_reason(shell: Shell) -> None:
    shown = shell("execution", "list", COLUMNS="60").out.splitlines()

    assert shown[0] == execution_id(shell)
    assert "  schedule       acme/monthly_statements" in shown
    assert "  state          SKIPPED" in shown
    assert f"  reason         {REASON}" in shown


@pytest.mark.parametrize("command", ["execution list", "tenant list", "tenant show acme"])
def test_wide_shortens_nothing(shell: Shell, command: str) -> None:
    assert REASON not in shell(*command.split(), COLUMNS="80").out

    shown = shell(*command.split(), "--wide", COLUMNS="80").out

    assert REASON in shown
    assert "…" not in shown


@pytest.mark.parametrize("columns", ["80", "60", "240"])
@pytest.mark.parametrize("command", [*LISTS, "token list", "limits", "plan acme.yaml"])
def test_no_line_ends_with_a_space(shell: Shell, command: str, columns: str) -> None:
    called = shell(*command.split(), COLUMNS=columns)

    assert called.code == 0
    assert [line for line in called.out.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("command", [*LISTS, "token list", "limits"])
def test_no_line_of_a_table_is_wider_than_80_columns(shell: Shell, command: str) -> None:
    shown = shell(*command.split(), COLUMNS="80").out.splitlines()

    assert [line for line in shown if len(line) > 80] == []


@pytest.mark.parametrize("command", ["audit", "limits"])
def test_a_narrow_terminal_does_not_break_sentences(shell: Shell, command: str) -> None:
    last = [shell(command, COLUMNS=columns).out.splitlines()[-1] for columns in ("240", "30")]

    assert last[0].split(" since ")[0] == last[1].split(" since ")[0]
    assert last[1].endswith((": no findings", "running now: 0"))
