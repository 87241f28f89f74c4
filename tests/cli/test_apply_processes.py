"""Concurrent, killed and interrupted commands; each is a real process."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import psycopg
import pytest
from support.fleet import Shell, manifest, names, numbered, query, schedules, versions
from support.patience import PATIENCE
from support.serve_process import serving

TENANTS = ("anna", "berta", "carla", "dora", "emma")
BLOCKED = "carla"
GATE = 4242
# An insert of a schedule of this tenant waits until the test opens the gate.
BLOCK = """
CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN PERFORM pg_advisory_xact_lock(4242); RETURN NULL; END';
CREATE TRIGGER wait AFTER INSERT ON {}.tenant_schedule EXECUTE FUNCTION public.wait()
"""
# Other databases have such locks, too.
WAITING = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4242 AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
LOCKED = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'relation' AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
AT_WORK = (
    "SELECT 1 FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'tenantcron'"
)


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def write(shell: Shell, tenant: str, count: int, file: str | None = None) -> None:
    text = manifest(tenant, numbered(count, f"cron: '0 {count} * * *'"))
    (shell.folder / f"{file or tenant}.yaml").write_text(text, encoding="utf-8")


def until(condition: Callable[[], bool]) -> None:
    patience = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < patience, "it never came"


@contextmanager
def half_way(
    shell: Shell, url: str, *options: str, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """Yield an apply that has finished all tenants but one, during its transaction."""
    for tenant in TENANTS:
        write(shell, tenant, 1)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    query(url, BLOCK, f"tenant_{BLOCKED}")
    for tenant in TENANTS:
        write(shell, tenant, 3)
    others = [tenant for tenant in TENANTS if tenant != BLOCKED]
    with psycopg.connect(url, autocommit=True) as gate:
        gate.execute("SELECT pg_advisory_lock(4242)")
        run = shell.start("apply-manifest", ".", *options, **variables)
        until(lambda: bool(query(url, WAITING)))
        until(lambda: all(len(names(url, tenant)) == 3 for tenant in others))
        yield run


def assert_whole(url: str) -> None:
    """Check that every tenant is in its old or its new state, never in between."""
    until(lambda: not query(url, AT_WORK))
    for tenant in TENANTS:
        count = 1 if tenant == BLOCKED else 3
        assert names(url, tenant) == list(numbered(count))
        assert {row["cron_expr"] for row in schedules(url, tenant)} == {f"0 {count} * * *"}
        assert len(versions(url, tenant)) == (1 if tenant == BLOCKED else 2)


def assert_reported(printed: str, errors: str) -> None:
    """Check that an interrupted apply prints the tenants that it counts, and no others."""
    # The last commit may be visible to the test before the process has counted it.
    count = re.fullmatch("Interrupted: ([34]) of 5 applied; run it again to finish\n", errors)
    assert count is not None, errors
    applied = re.findall(r"^(\w+)  applied, version 2$", printed, re.MULTILINE)
    assert len(applied) == int(count[1]), printed
    assert set(applied) <= set(TENANTS) - {BLOCKED}


def assert_finished(shell: Shell, url: str) -> None:
    """Check that a second run applies only the remaining tenant."""
    called = shell("apply-manifest", ".", "--format", "json")
    statuses = {tenant["tenant"]: tenant["status"] for tenant in json.loads(called.out)["tenants"]}
    assert called.code == 0
    expected = {tenant: "applied" if tenant == BLOCKED else "unchanged" for tenant in TENANTS}
    assert statuses == expected
    for tenant in TENANTS:
        assert names(url, tenant) == list(numbered(3))
        assert len(versions(url, tenant)) == 2


def test_a_killed_apply_leaves_complete_tenants_and_a_second_run_finishes(
    shell: Shell, database_url: str
) -> None:
    with half_way(shell, database_url) as run:
        run.kill()
        run.communicate()

    assert_whole(database_url)
    assert_finished(shell, database_url)


def test_an_interrupted_apply_reports_its_progress_and_leaves_complete_tenants(
    shell: Shell, database_url: str
) -> None:
    with half_way(shell, database_url) as run:
        run.send_signal(signal.SIGINT)
        printed, errors = run.communicate(timeout=PATIENCE)

    assert run.returncode == 130
    assert_reported(printed, errors)
    assert_whole(database_url)
    assert_finished(shell, database_url)


def test_an_interrupted_apply_through_a_server_reports_its_progress(
    shell: Shell, database_url: str
) -> None:
    made = shell("token", "create", "ops", "--role", "admin", "--format", "json")
    token = json.loads(made.out)["token"]
    with (
        serving(shell) as (server, _),
        half_way(shell, database_url, "--server", server, TENANTCRON_TOKEN=token) as run,
    ):
        run.send_signal(signal.SIGINT)
        printed, errors = run.communicate(timeout=PATIENCE)

    assert run.returncode == 130
    assert_reported(printed, errors)


def test_two_concurrent_commands_for_a_tenant_are_serialised(
    shell: Shell, database_url: str
) -> None:
    for tenant_round in range(2):
        write(shell, "acme", 3 + tenant_round, file="first")
        write(shell, "acme", 5 + tenant_round, file="second")

        runs = [
            shell.start("apply-manifest", f"{file}.yaml", "--create-tenants", "--format", "json")
            for file in ("first", "second")
        ]
        answers = [json.loads(run.communicate()[0]) for run in runs]

        assert [run.returncode for run in runs] == [0, 0]
        assert sorted(answer["tenants"][0]["manifest_version"] for answer in answers) == [
            2 * tenant_round + 1,
            2 * tenant_round + 2,
        ]
        live = {row["schedule_name"]: row["cron_expr"] for row in schedules(database_url, "acme")}
        assert live in [
            dict.fromkeys(numbered(count), f"0 {count} * * *")
            for count in (3 + tenant_round, 5 + tenant_round)
        ]
    assert [version["version"] for version in versions(database_url, "acme")] == [1, 2, 3, 4]


def test_two_commands_that_create_the_same_tenant_both_succeed(
    shell: Shell, database_url: str
) -> None:
    write(shell, "acme", 3)

    runs = [
        shell.start("apply-manifest", "acme.yaml", "--create-tenants", "--format", "json")
        for _ in range(2)
    ]
    outputs = [run.communicate() for run in runs]

    assert [run.returncode for run in runs] == [0, 0]
    assert [errors for _, errors in outputs] == ["", ""]
    statuses = [json.loads(out)["tenants"][0]["status"] for out, _ in outputs]
    assert sorted(statuses) == ["applied", "unchanged"]
    assert [version["version"] for version in versions(database_url, "acme")] == [1]


def test_an_apply_that_is_interrupted_before_its_first_tenant_has_applied_none(
    shell: Shell, database_url: str
) -> None:
    for tenant in TENANTS:
        write(shell, tenant, 1)
    assert shell("migrate").code == 0
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE tenantcron.tenant IN ACCESS EXCLUSIVE MODE")
        run = shell.start("apply-manifest", ".", "--create-tenants")
        until(lambda: bool(query(database_url, LOCKED)))
        run.send_signal(signal.SIGINT)
        printed, errors = run.communicate(timeout=PATIENCE)

    assert (run.returncode, printed) == (130, "")
    assert errors == "Interrupted: 0 of 5 applied; run it again to finish\n"
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
