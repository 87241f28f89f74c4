"""Output of the commands in narrow terminals."""

import json
from pathlib import Path

import pytest
from support.cursors import run
from support.fleet import Shell, manifest

REASON = "the partner system answered with an error that takes a long sentence to describe"
LISTS = (
    "execution list",
    "task list",
    "schedule list",
    "schedule show acme/monthly_statements",
    "tenant list",
)
# Milliseconds, as a prefix of an id: those of a task begin with its time.
TASKS = ("0193810a-6c00-7a00-8000-000000000001", "0193810a-6c05-7a00-8000-000000000002")
SAME_TIME = "0193810a-6c05-7a01-8000-000000000003"


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    text = manifest("acme", {"monthly_statements": "cron: '0 2 1 * *'"})
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    assert shell("schedule", "trigger", "acme/monthly_statements").code == 0
    skip_executions(database_url)
    for task in TASKS:
        add_task(shell, task)
    assert shell("tenant", "suspend", "acme", "--reason", REASON).code == 0
    assert shell("token", "create", "ci", "--role", "deployer", "--tenant", "acme").code == 0
    return shell


def add_task(shell: Shell, id_: str) -> None:
    """Submit a task, and skip its execution."""
    call = shell("task", "submit", "acme", "send_invoice", "--format", "json")
    submitted = json.loads(call.out)["task"]["id"]
    assert shell.url is not None
    for table in ("task", "execution"):
        run(shell.url, f"UPDATE tenantcron.{table} SET id = %s WHERE id = %s", id_, submitted)  # noqa: S608 -- tables of the test
    skip_executions(shell.url)


def skip_executions(url: str) -> None:
    """End all executions."""
    run(
        url,
        "UPDATE tenantcron.execution SET state = 'SKIPPED', reason = %s, finished_at = now()",
        REASON,
    )


def execution_id(shell: Shell) -> str:
    found = json.loads(
        shell("execution", "list", "acme/monthly_statements", "--format", "json").out
    )
    return str(found["executions"][0]["id"])[:8]


def test_80_columns_show_the_id_and_the_state_in_full_and_shorten_the_reason(
    shell: Shell,
) -> None:
    row = shell("execution", "list", "acme/monthly_statements", COLUMNS="80").out.splitlines()[1]

    assert row.startswith(f"{execution_id(shell)}  ")
    assert " SKIPPED " in row
    assert row.endswith("…")
    assert len(row) <= 80


def test_60_columns_show_executions_as_a_list_with_the_entire_reason(shell: Shell) -> None:
    shown = shell("execution", "list", "acme/monthly_statements", COLUMNS="60").out.splitlines()

    assert shown[0] == execution_id(shell)
    assert "  schedule       acme/monthly_statements" in shown
    assert "  state          SKIPPED" in shown
    assert f"  reason         {REASON}" in shown


def test_80_columns_show_tasks_and_mixed_executions_as_tables(shell: Shell) -> None:
    executions = shell("execution", "list", COLUMNS="80").out.splitlines()
    tasks = shell("task", "list", COLUMNS="80").out.splitlines()

    assert executions[0].split()[:2] == ["execution", "schedule"]
    assert {row.split()[0] for row in executions[1:]} == {
        execution_id(shell),
        "0193810a-6c00",
        "0193810a-6c05",
    }
    assert tasks[0].split()[:2] == ["task", "saga"]
    assert [row.split()[0] for row in tasks[1:]] == ["acme/0193810a-6c05", "acme/0193810a-6c00"]


@pytest.mark.parametrize(
    "command",
    ["task show {}", "why {}", "task retry {}", "task cancel {}", "task reschedule {} --at +1h"],
)
def test_commands_accept_the_shown_id_of_a_task(shell: Shell, command: str) -> None:
    assert shell("tenant", "resume", "acme").code == 0
    shown = shell("task", "list", COLUMNS="80").out.splitlines()[1].split()[0]

    called = shell(*command.format(shown).split())

    assert f"{TASKS[1]}" in called.out + called.err


def test_tasks_of_the_same_millisecond_have_longer_ids(shell: Shell) -> None:
    assert shell("tenant", "resume", "acme").code == 0
    add_task(shell, SAME_TIME)

    shown = shell("task", "list", COLUMNS="80").out.splitlines()[1:]
    ambiguous = shell("task", "show", "acme/0193810a-6c05")
    unknown = shell("task", "show", "acme/0193810b")

    assert [row.split()[0] for row in shown] == [
        "acme/0193810a-6c05-7a01",
        "acme/0193810a-6c05-7a00",
        "acme/0193810a-6c00-7a00",
    ]
    assert ambiguous.code == 1
    assert ambiguous.err == (
        "error: several task ids begin with 0193810a-6c05: use a longer prefix of "
        f"{SAME_TIME}, {TASKS[1]}\n"
    )
    assert unknown.code == 1
    assert unknown.err == (
        "error: no task of acme has an id that begins with 0193810b: "
        "`tenantcron task list acme` shows ids\n"
    )


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
