"""`tenantcron health`."""

import json
from pathlib import Path
from time import monotonic

import psycopg
import pytest
from support.cursors import run
from support.fleet import Shell, footprint, manifest

# Generous, for a busy machine.
SLOW_MACHINE = 5.0


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def prepare(shell: Shell) -> None:
    """Create the partitions of the months, as a scheduler does."""
    assert shell("run", "--once").code == 0


def test_a_healthy_cluster_exits_with_0_even_without_schedulers(shell: Shell) -> None:
    called = shell("health")
    assert (called.code, called.err) == (0, "")
    assert called.out.splitlines() == ["0 replicas, 0 of 20 running, 0 waiting, lag 0s", "healthy"]
    answer = json.loads(shell("health", "--format", "json").out)
    assert answer == {
        "healthy": True,
        "findings": [],
        "replicas": [],
        "running": 0,
        "max_concurrent": 20,
        "waiting": 0,
        "lag_seconds": 0.0,
    }


def test_findings_exit_with_1_and_have_hints(shell: Shell, database_url: str) -> None:
    prepare(shell)
    text = manifest("acme", {"nightly": "cron: '0 2 * * *'"})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
    shell("apply-manifest", ".", "--create-tenants")
    prepare(shell)
    run(database_url, "UPDATE tenantcron.schedule_cursor SET fault = E'odd \\x1b[2J'")
    before = footprint(database_url)

    called = shell("health")
    answer = json.loads(shell("health", "--format", "json").out)

    assert called.code == 1
    assert "error[no-replica] " in called.out
    assert "error[cursor-set-aside] 1 schedule cannot be evaluated" in called.out
    assert "  acme/nightly\n  = apply the tenant's manifest again" in called.out
    assert "\x1b" not in called.out
    assert [finding["code"] for finding in answer["findings"]] == ["no-replica", "cursor-set-aside"]
    for finding in answer["findings"]:
        assert finding.keys() == {"code", "severity", "message", "hint", "subjects", "count"}
    assert footprint(database_url) == before


def test_replicas_are_listed(shell: Shell, database_url: str) -> None:
    prepare(shell)
    run(
        database_url,
        "INSERT INTO tenantcron.worker (id, service, started_at, seen_at, running)"
        " VALUES ('one', 'billing', now(), now(), 3), ('gone', 'billing', now(),"
        " now() - interval '1 hour', 0)",
    )
    (replica,) = json.loads(shell("health", "--format", "json").out)["replicas"]
    assert (replica["id"], replica["service"], replica["running"]) == ("one", "billing", 3)


@pytest.mark.parametrize("table", ["execution", "schedule_cursor", "tenant", "identity", "worker"])
def test_a_locked_table_is_named_in_time(shell: Shell, database_url: str, table: str) -> None:
    prepare(shell)
    with psycopg.connect(database_url, application_name="a backup") as session:
        session.execute(f"LOCK TABLE tenantcron.{table} IN ACCESS EXCLUSIVE MODE")
        pid = session.info.backend_pid
        started = monotonic()
        called = shell("health", "--format", "json")
        seconds = monotonic() - started

    # `identity` is not read for it, so it does not matter here.
    codes = [] if table == "identity" else ["table-locked"]
    answer = json.loads(called.out)
    assert [finding["code"] for finding in answer["findings"]] == codes
    for finding in answer["findings"]:
        assert finding["message"].startswith(f"tenantcron.{table} is locked by process {pid}")
        assert "a backup" in finding["message"]
        assert f"pg_terminate_backend({pid})" in finding["hint"]
    assert called.code == len(codes)
    assert seconds < 5 + SLOW_MACHINE
