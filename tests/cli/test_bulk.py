"""`execution retry` and `cancel` with filters, `schedule pause` and `resume` with --all."""

import json
import signal
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from support.cursors import run
from support.fleet import Shell, manifest, query
from support.many_executions import add_executions
from support.patience import PATIENCE
from support.processes import until

from tenantcron.scheduler.operate.bulk import EXECUTIONS_A_BATCH


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    for tenant in ("acme", "beta"):
        text = manifest(tenant, {"nightly": "cron: '0 2 * * *'", "weekly": "cron: '0 3 * * 1'"})
        (tmp_path / f"{tenant}.yaml").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    # Syncs the cursors and creates the partitions of the history.
    assert shell("schedule", "trigger", "acme/nightly").code == 0
    assert shell("execution", "cancel", "--tenant", "acme").code == 0
    return shell


def states(url: str) -> Counter[str]:
    return Counter(row["state"] for row in query(url, "SELECT state FROM tenantcron.execution"))


def test_a_dry_run_shows_counts_and_the_first_rows(shell: Shell, database_url: str) -> None:
    add_executions(database_url, 12)
    add_executions(database_url, 2, tenant="beta", schedule="weekly")

    called = shell("execution", "retry", "--state", "DEAD", "--since", "2h", "--dry-run")

    lines = called.out.splitlines()
    assert (called.code, lines[0]) == (0, "would retry 14 executions")
    assert lines[2].split() == ["acme", "nightly", "12"]
    assert lines[3].split() == ["beta", "weekly", "2"]
    assert sum("DEAD" in line for line in lines) == 10
    assert lines[-1] == "nothing was changed: run it without --dry-run"
    assert states(database_url) == {"DEAD": 14, "CANCELLED": 1}


def test_a_bulk_pause_shows_its_end_and_the_command_that_lifts_it(shell: Shell) -> None:
    pause = ("schedule", "pause", "--all", "--tenant", "acme", "--saga", "nightly")
    called = shell(*pause, "--reason", "data move", "--until", "2999-01-01T00:00:00Z")
    forever = shell("schedule", "pause", "--all", "--tenant", "beta", "--reason", "x")

    first, until, resume = called.out.splitlines()
    assert first == "paused 1 schedule"
    assert until == "they are paused until 2999-01-01 00:00:00 UTC, or until they are resumed:"
    assert resume == (
        "  tenantcron schedule resume --all --tenant acme --saga nightly"
        " --paused-reason 'data move'"
    )
    assert forever.out.splitlines()[1] == "they are paused until they are resumed:"


@pytest.fixture
def failed(shell: Shell, database_url: str) -> Shell:
    """Dead executions with different errors, and one that was skipped."""
    add_executions(database_url, 6)
    for number, error in enumerate(
        ("ConnectError: 50% down", "connecterror: no route", "timed out")
    ):
        run(
            database_url,
            "UPDATE tenantcron.execution SET reason = %s, reason_code = 'failed'"
            " WHERE id = (SELECT id FROM tenantcron.execution WHERE state = 'DEAD'"
            " ORDER BY id OFFSET %s LIMIT 1)",
            error,
            number,
        )
    run(
        database_url,
        "UPDATE tenantcron.execution SET state = 'SKIPPED', reason = '5', reason_code = 'limit'"
        " WHERE id = (SELECT max(id::text)::uuid FROM tenantcron.execution WHERE state = 'DEAD')",
    )
    return shell


@pytest.mark.parametrize(
    ("text", "number"),
    [("ConnectError", 2), ("50% down", 1), ("timed out", 1), ("LIMIT REACHED (5)", 1), ("_", 0)],
)
def test_a_list_is_filtered_by_a_part_of_the_reason(failed: Shell, text: str, number: int) -> None:
    called = failed("execution", "list", "--error", text, "--since", "1d", "--format", "json")

    found = json.loads(called.out)["executions"]
    assert len(found) == number
    assert all(text.lower() in execution["reason"].lower() for execution in found)


def test_executions_with_an_error_are_retried(failed: Shell, database_url: str) -> None:
    call = ("execution", "retry", "acme/nightly", "--since", "1d", "--error", "connecterror")

    preview = failed(*call, "--dry-run")
    done = failed(*call)

    assert preview.out.splitlines()[0] == "would retry 2 executions"
    assert done.out.splitlines()[-1] == "queued for retry: 2 executions"
    assert states(database_url) == {"PENDING": 2, "DEAD": 3, "SKIPPED": 1, "CANCELLED": 1}


def test_executions_with_an_error_are_cancelled(failed: Shell, database_url: str) -> None:
    assert failed("execution", "retry", "--since", "1d", "--error", "timed out").code == 0
    run(database_url, "UPDATE tenantcron.execution SET reason = 'no' WHERE state = 'PENDING'")

    called = failed("execution", "cancel", "--tenant", "acme", "--error", "yes")
    again = failed("execution", "cancel", "--tenant", "acme", "--error", "no")

    assert "cancelled 0 executions" in called.out
    assert "cancelled 1 execution" in again.out


@pytest.mark.parametrize("arguments", [("--error", "x"), ("3f2a9c1e", "--error", "x")])
def test_an_error_is_used_with_other_filters(shell: Shell, arguments: tuple[str, ...]) -> None:
    called = shell("execution", "retry", *arguments)

    assert called.code == 2
    assert ("add one, such as --since 12h" in called.err) is (len(arguments) == 2)


def test_matching_executions_are_retried_and_refused_ones_exit_with_1(
    shell: Shell, database_url: str
) -> None:
    add_executions(database_url, 3)
    add_executions(database_url, 2, tenant="beta")
    assert shell("tenant", "suspend", "beta", "--reason", "unpaid").code == 0

    called = shell("execution", "retry", "--saga", "nightly")

    assert called.code == 1
    assert called.out.splitlines()[:2] == [
        "queued for retry: 3 executions",
        "refused 2 executions:",
    ]
    assert "tenant `beta` is suspended (unpaid)" in called.out
    again = shell("execution", "retry", "--saga", "nightly", "--tenant", "acme")
    assert (again.code, again.out) == (0, "queued for retry: 0 executions\n")


def test_a_schedule_is_short_for_the_filters_by_tenant_and_schedule(
    shell: Shell, database_url: str
) -> None:
    add_executions(database_url, 3)
    add_executions(database_url, 2, schedule="weekly")
    add_executions(database_url, 1, tenant="beta")

    previewed = shell("execution", "retry", "acme/nightly", "--dry-run")
    assert previewed.out.splitlines()[0] == "would retry 3 executions"
    assert states(database_url)["DEAD"] == 6
    called = shell("execution", "retry", "acme/nightly", "--since", "1d")
    assert (called.code, called.out) == (0, "queued for retry: 3 executions\n")
    called = shell("execution", "cancel", "acme/nightly", "--reason", "wrong month")
    assert (called.code, called.out) == (0, "cancelled 3 executions\n")
    assert states(database_url) == {"DEAD": 3, "CANCELLED": 4}


def test_an_unknown_schedule_is_declined_instead_of_matching_nothing(shell: Shell) -> None:
    called = shell("execution", "retry", "acme/nigthly")

    assert (called.code, called.out) == (1, "")
    assert "has no schedule `nigthly`" in called.err


def test_cancelling_nothing_explains_that_running_executions_are_not_included(
    shell: Shell,
) -> None:
    called = shell("execution", "cancel", "acme/nightly")

    assert called.out.splitlines() == [
        "cancelled 0 executions",
        "running executions are not included: add --state RUNNING",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("execution", "retry"), "name an execution, or filter executions"),
        (("execution", "cancel", "--dry-run"), "name an execution, or filter executions"),
        (("execution", "retry", "3f2a9c1e", "--state", "DEAD"), "without filters"),
        (("execution", "retry", "acme/nightly", "--tenant", "beta"), "without --tenant"),
        (("execution", "retry", "acme/"), "schedule"),
        (("execution", "cancel", "--state", "DEAD"), "cancel is for PENDING, RETRYING and RUNNING"),
        (("schedule", "pause", "--reason", "x"), "name TENANT/SCHEDULE, or use --all"),
        (("schedule", "pause", "--all", "--reason", "x"), "--all needs a filter"),
        (("schedule", "resume", "acme/nightly", "--all"), "use it without --all"),
        (("schedule", "resume", "acme/nightly", "--dry-run"), "are for --all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_usage_is_explained_and_changes_nothing(
    shell: Shell, database_url: str, arguments: tuple[str, ...], message: str
) -> None:
    add_executions(database_url, 1)

    called = shell(*arguments)

    assert (called.code, states(database_url)) == (2, {"DEAD": 1, "CANCELLED": 1})
    assert message in called.err


def test_ctrl_c_finishes_the_batch_and_the_same_command_does_the_rest(
    shell: Shell, database_url: str
) -> None:
    add_executions(database_url, EXECUTIONS_A_BATCH + 7)
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE tenantcron.audit_record IN EXCLUSIVE MODE")
        process = shell.start("execution", "retry", "--state", "DEAD", "--format", "json")
        # Other tests use other databases of the same server.
        waits = (
            "SELECT 1 FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_database AS d"
            " ON d.oid = l.database WHERE NOT l.granted AND d.datname = current_database()"
        )
        until(lambda: bool(run(database_url, waits)))
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline() == "\n"
        assert "finishing the current batch" in process.stderr.readline()
    out, _ = process.communicate(timeout=PATIENCE)

    summary = json.loads(out)
    assert process.returncode == 130
    assert (summary["changed"], summary["interrupted"]) == (EXECUTIONS_A_BATCH, True)
    assert states(database_url)["DEAD"] == 7
    again = shell("execution", "retry", "--state", "DEAD")
    assert (again.code, again.out) == (0, "queued for retry: 7 executions\n")
    records = query(
        database_url, "SELECT entity_id FROM tenantcron.audit_record WHERE operation = 'retry'"
    )
    assert len({row["entity_id"] for row in records}) == EXECUTIONS_A_BATCH + 7
