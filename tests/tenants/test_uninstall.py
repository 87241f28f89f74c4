"""`tenantcron uninstall` removes our objects, and stops at those of others."""

from pathlib import Path

import pytest
from support.fleet import Shell, footprint, query

ALL = ("uninstall", "--yes", "--with-tenants")


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def schemas(url: str) -> list[str]:
    rows = query(url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenant%' ORDER BY 1")
    return [row["nspname"] for row in rows]


def test_the_role_is_kept_while_another_database_uses_it(shell: Shell, database_url: str) -> None:
    called = shell("uninstall", "--yes")

    assert called.code == 0, called
    assert schemas(database_url) == []
    assert "the role `tenantcron_api` is kept: other databases use it" in called.out
    assert query(database_url, "SELECT 1 AS x FROM pg_roles WHERE rolname = 'tenantcron_api'")


def test_objects_of_the_platform_that_depend_on_the_control_schema_stop_it(
    shell: Shell, database_url: str
) -> None:
    shell("tenant", "create", "acme")
    query(database_url, "CREATE VIEW public.load AS SELECT state FROM tenantcron.execution")

    called = shell(*ALL)

    assert called.code == 1
    assert "view public.load depends on table tenantcron.execution" in called.err
    assert schemas(database_url) == ["tenantcron"]
    query(database_url, "DROP VIEW public.load")
    assert shell(*ALL).code == 0
    assert schemas(database_url) == []


def test_a_table_of_the_platform_in_the_control_schema_is_not_dropped(
    shell: Shell, database_url: str
) -> None:
    query(database_url, "CREATE TABLE tenantcron.notes (id int)")

    called = shell(*ALL)

    assert called.code == 1
    assert "table tenantcron.notes depends on schema tenantcron" in called.err
    assert query(database_url, "SELECT * FROM tenantcron.tenant") == []


def test_it_refuses_while_schedulers_run(shell: Shell, database_url: str) -> None:
    query(
        database_url,
        "INSERT INTO tenantcron.worker (id, service, started_at, seen_at)"
        " VALUES ('host:1:a', 'scheduler', now(), now())",
    )
    before = footprint(database_url)

    called = shell(*ALL)

    assert called.code == 1
    assert "schedulers are running: 1. Stop them first" in called.err
    assert footprint(database_url) == before
    assert shell(*ALL, "--with-replicas").code == 0


def test_a_newer_database_is_left_to_a_newer_release(shell: Shell, database_url: str) -> None:
    query(database_url, "UPDATE tenantcron.schema_version SET version_num = '9999_later'")

    called = shell(*ALL)

    assert called.code == 1
    assert "the database is at 9999_later" in called.err


def test_the_embedded_database_is_a_folder(tmp_path: Path) -> None:
    called = Shell(tmp_path)("uninstall", "--yes")

    assert called.code == 2
    assert "rm -r .tenantcron" in called.err
