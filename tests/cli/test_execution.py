"""`tenantcron execution`."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.cursors import run
from support.fleet import Shell, footprint, manifest

# What the documentation promises to programs.
KEYS = {
    "id",
    "tenant",
    "schedule",
    "saga",
    "scheduled_for",
    "state",
    "reason_code",
    "reason",
    "attempt",
    "losses",
    "suspect",
    "started_at",
    "finished_at",
    "actor",
    "correlation_id",
    "covers_from",
    "missed_count",
    "not_before",
    "worker",
}


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    for tenant in ("acme", "beta"):
        text = manifest(tenant, {"nightly": "cron: '0 2 * * *'", "weekly": "cron: '0 3 * * 1'"})
        (tmp_path / f"{tenant}.yaml").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    return shell


def trigger(shell: Shell, ref: str = "acme/nightly") -> str:
    called = shell("schedule", "trigger", ref, "--actor", "maria", "--format", "json")
    return str(json.loads(called.out)["execution"])


def json_of(shell: Shell, *arguments: str) -> Any:
    called = shell("execution", *arguments, "--format", "json")
    assert (called.code, called.err) == (0, "")
    return json.loads(called.out)


def fail(url: str, execution: str, error: str) -> None:
    """Create an execution that failed permanently."""
    run(
        url,
        "UPDATE tenantcron.execution SET state = 'DEAD', reason = 'ValueError', attempt = 1,"
        " started_at = now(), finished_at = now() + interval '2 s', worker_id = 'one'"
        " WHERE id = %s",
        execution,
    )
    run(
        url,
        "INSERT INTO tenantcron.execution_attempt SELECT id, scheduled_for, 1, 'one', started_at,"
        " finished_at, 'FAILED', %s FROM tenantcron.execution WHERE id = %s",
        error,
        execution,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("acme/nightly",),
        ("acme", "--schedule", "nightly"),
        ("--tenant", "acme", "--schedule", "nightly"),
        ("acme/nightly", "--tenant", "acme", "--since", "1h", "--until", "+1h"),
    ],
)
def test_a_tenant_is_named_as_an_argument_or_as_an_option(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    nightly, _, _ = trigger(shell), trigger(shell, "acme/weekly"), trigger(shell, "beta/nightly")

    assert [row["id"] for row in json_of(shell, "list", *arguments)["executions"]] == [nightly]


def test_relative_times_filter_executions(shell: Shell) -> None:
    trigger(shell)

    assert len(json_of(shell, "list", "--since", "1h")["executions"]) == 1
    assert json_of(shell, "list", "--until", "1h") == {"executions": []}


def test_two_different_tenants_are_a_usage_error(shell: Shell) -> None:
    called = shell("execution", "list", "acme", "--tenant", "beta")

    assert called.code == 2
    assert called.err == "error: two tenants are named, acme and beta: name one\n"


def test_the_list_has_the_promised_keys_and_the_newest_first(shell: Shell) -> None:
    assert json_of(shell, "list") == {"executions": []}
    first, second = trigger(shell), trigger(shell, "beta/weekly")

    rows = json_of(shell, "list")["executions"]

    assert [row["id"] for row in rows] == [second, first]
    assert rows[0].keys() >= KEYS
    assert rows[1]["actor"] == {
        "id": "maria",
        "type": "human",
        "source": "manual",
        "authenticated": False,
    }
    assert (rows[1]["state"], rows[1]["correlation_id"]) == ("PENDING", first)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--tenant", "acme"], 2),
        (["--tenant", "acme", "--schedule", "weekly"], 1),
        (["--schedule", "nightly"], 2),
        (["--state", "pending", "--state", "DEAD"], 3),
        (["--state", "DEAD"], 0),
        (["--since", "2099-01-01T00:00:00Z"], 0),
        (["--since", "2020-01-01"], 3),
        (["--limit", "1"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_list_can_be_filtered(shell: Shell, options: list[str], found: int) -> None:
    for ref in ("acme/nightly", "acme/weekly", "beta/nightly"):
        trigger(shell, ref)
    assert len(json_of(shell, "list", *options)["executions"]) == found


def test_the_former_name_of_retrying_is_refused_and_the_new_one_is_listed(shell: Shell) -> None:
    ended = shell("execution", "list", "--state", "FAILED")

    assert ended.code == 2
    assert "RETRYING" in ended.err


def test_the_text_is_a_table_with_ids_that_can_be_used(shell: Shell, database_url: str) -> None:
    assert "no executions" in shell("execution", "list").out
    execution = trigger(shell)
    fail(database_url, execution, "x")
    run(database_url, "UPDATE tenantcron.execution SET reason = E'odd \\x1b[2J'")

    lines = shell("execution", "list").out.splitlines()

    assert lines[0].split()[:2] == ["execution", "schedule"]
    cells = lines[1].split()
    assert cells[:2] == [execution[:8], "acme/nightly"]
    assert "DEAD" in cells
    assert "2.0s" in cells
    assert "\x1b" not in lines[1]


def test_show_fits_60_columns_except_for_errors(shell: Shell, database_url: str) -> None:
    execution = trigger(shell)
    fail(database_url, execution, "ValueError: no\n  in  line 3  " + "x" * 60)

    lines = shell("execution", "show", execution, COLUMNS="60").out.splitlines()

    assert [line for line in lines if len(line) > 60 and "xxx" not in line] == []
    assert f"`tenantcron execution retry {execution[:8]}`" in "\n".join(lines)
    assert "        in  line 3  " + "x" * 60 in lines


def test_show_has_the_attempts_and_their_errors(shell: Shell, database_url: str) -> None:
    execution = trigger(shell)
    fail(database_url, execution, "ValueError: no\n  in line 3")

    text = shell("execution", "show", execution[:8]).out
    (attempt,) = json_of(shell, "show", execution)["execution"]["attempts"]

    assert f"execution {execution}  DEAD" in text
    assert "acme/nightly, saga nightly" in text
    assert "runs as maria (human, manual)" in text
    assert "      ValueError: no\n        in line 3\n" in text
    assert f"`tenantcron execution retry {execution[:8]}` runs it again" in text
    assert (attempt["attempt"], attempt["outcome"], attempt["worker"]) == (1, "FAILED", "one")
    assert attempt["error"] == "ValueError: no\n  in line 3"


def test_show_of_a_suspect_has_its_losses_and_that_it_waits_for_its_turn(
    shell: Shell, database_url: str
) -> None:
    execution = trigger(shell)
    run(
        database_url,
        "UPDATE tenantcron.execution SET state = 'RETRYING', reason = 'worker lost', attempt = 4,"
        " attempts_allowed = 7, losses = 4, suspicion = 3",
    )

    text = shell("execution", "show", execution).out
    answer = json_of(shell, "show", execution)["execution"]

    assert "  lost with its worker 4 times, the suspected cause 1 time\n" in text
    assert "waits for its turn: `tenantcron why acme/nightly`" in text
    assert (answer["losses"], answer["suspect"]) == (4, True)


def test_an_operator_gives_one_that_killed_its_worker_another_chance_alone(
    shell: Shell, database_url: str
) -> None:
    execution = trigger(shell)
    fail(database_url, execution, "worker lost")
    run(database_url, "UPDATE tenantcron.execution SET attempt = 5, losses = 5, suspicion = 5")

    assert shell("execution", "retry", execution).code == 0

    (row,) = run(database_url, "SELECT * FROM tenantcron.execution")
    assert (row["state"], row["losses"], row["suspicion"]) == ("PENDING", 0, 2)
    assert (row["attempt"], row["attempts_allowed"]) == (5, 8)


def test_retry_and_cancel_report_the_new_state(shell: Shell, database_url: str) -> None:
    execution = trigger(shell)
    fail(database_url, execution, "x")

    retried = shell("execution", "retry", execution, "--actor", "joe")
    cancelled = json_of(shell, "cancel", execution, "--reason", "wrong month")["execution"]

    assert retried.code == 0
    assert "is queued for retry, with at most 3 attempts left" in retried.out
    assert (cancelled["state"], cancelled["reason"]) == ("CANCELLED", "wrong month")
    records = run(
        database_url,
        "SELECT operation, changed_by FROM tenantcron.audit_record"
        " WHERE entity_type = 'execution' ORDER BY id",
    )
    assert [row["operation"] for row in records] == ["trigger", "retry", "cancel"]
    assert records[1]["changed_by"] == "joe"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "ffffffff"], "execution list"),
        (["retry", "ffffffff"], "execution list"),
        (["list", "--tenant", "acne"], "did you mean `acme`"),
        (["list", "--tenant", "acme", "--schedule", "nigthly"], "did you mean `acme/nightly`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_missing_execution_is_reported_in_one_line(
    shell: Shell, database_url: str, arguments: list[str], says: str
) -> None:
    before = footprint(database_url)
    called = shell("execution", *arguments)
    assert (called.code, called.out) == (1, "")
    assert says in called.err
    assert len(called.err.splitlines()) == 1
    assert footprint(database_url) == before


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["show"],
        ["show", "short"],
        ["list", "--state", "GONE"],
        ["list", "--limit", "0"],
        ["list", "--limit", "many"],
        ["list", "--since", "lately"],
        ["list", "--tenant", "No'body"],
        ["list", "--schedule", "No body"],
        ["cancel", "0123456789", "--reason", " "],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(shell: Shell, arguments: list[str]) -> None:
    called = shell("execution", *arguments)
    assert (called.code, called.out) == (2, "")
    assert called.err


def test_an_unknown_state_is_reported_with_the_valid_ones(shell: Shell) -> None:
    called = shell("execution", "list", "--state", "RUNING")

    assert called.code == 2
    assert "'RUNING'" in called.err
    # argparse quotes the choices before Python 3.12.8 only.
    assert "PENDING, RUNNING, RETRYING" in called.err.replace("'", "")


def test_a_list_that_ends_at_the_default_limit_says_so(shell: Shell) -> None:
    for _ in range(20):
        trigger(shell, "acme/nightly")

    listed = shell("execution", "list", "--format", "csv")

    assert len(listed.out.splitlines()) == 21
    assert listed.err == "note: these are the newest 20; for more, raise --limit\n"
    assert shell("execution", "list", "--limit", "19").err == ""
