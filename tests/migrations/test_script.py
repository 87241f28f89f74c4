"""`migrate --sql`: a script run by psql does what `migrate` does."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection
from support.catalog import Description, describe
from support.fleet import Called, Shell, manifest, numbered, query
from support.programs import run_script
from support.tenants import add_behind, add_current, add_row

from tenantcron.core.settings import Settings
from tenantcron.migrations.history import history
from tenantcron.store.connection.engine import open_database
from tenantcron.store.schema.versions import CONTROL_VERSION, TENANT_VERSION

ORG_ACME = 'Org "acme"'
NOTHING = "-- There is nothing to migrate.\n"


def on(url: str, work: Callable[[AsyncConnection], Awaitable[object]]) -> None:
    async def run() -> None:
        settings = Settings(database_url=url, folder=Path())
        async with open_database(settings) as database, database.transaction() as connection:
            await work(connection)

    asyncio.run(run())


def described(url: str, schema: str) -> Description:
    found: list[Description] = []

    async def work(connection: AsyncConnection) -> None:
        found.append(await describe(connection, schema))

    on(url, work)
    return found[0]


def undo_the_newest(
    connection: Connection, kind: Literal["control", "tenant"], schema: str
) -> None:
    """Put a schema back by one migration."""
    newest = history(kind).scripts.get_revision("head")
    context = MigrationContext.configure(connection)
    newest.module.downgrade(Operations(context), schema=schema)
    before = text(f"UPDATE {schema}.schema_version SET version_num = :version")  # noqa: S608 -- a name of the test
    connection.execute(before, {"version": newest.down_revision})


def printed(shell: Shell, *options: str) -> str:
    called = shell("migrate", "--sql", *options)
    assert (called.code, called.err) == (0, "")
    return called.out


def checked(shell: Shell) -> Called:
    called = shell("migrate", "--check")
    assert called.code == 0, called
    return called


def test_an_empty_database_is_set_up_by_the_script(
    empty_database_url: str, database_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, empty_database_url)

    done = run_script(empty_database_url, printed(shell))

    assert (done.returncode, done.stderr) == (0, "")
    assert checked(shell).out == (
        f"as expected: control schema and 0 tenants, at {CONTROL_VERSION} and {TENANT_VERSION}\n"
    )
    assert described(empty_database_url, "tenantcron") == described(database_url, "tenantcron")
    assert printed(shell) == NOTHING


def test_the_control_schema_may_have_been_created_for_us(
    empty_database_url: str, tmp_path: Path
) -> None:
    query(empty_database_url, "CREATE SCHEMA tenantcron")
    shell = Shell(tmp_path, empty_database_url)

    assert run_script(empty_database_url, printed(shell)).returncode == 0
    checked(shell)


def test_the_previous_version_and_tenants_behind_are_brought_up_to_date(
    database_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, database_url)
    on(database_url, lambda connection: add_current(connection, "previous"))
    model = {
        schema: described(database_url, schema) for schema in ("tenantcron", "tenant_previous")
    }

    async def fall_behind(connection: AsyncConnection) -> None:
        for tenant in ("a", "b"):
            await add_behind(connection, tenant)
        await connection.run_sync(undo_the_newest, "tenant", "tenant_previous")
        await connection.run_sync(undo_the_newest, "control", "tenantcron")

    on(database_url, fall_behind)
    assert shell("migrate", "--check").code == 1

    done = run_script(database_url, printed(shell))

    assert (done.returncode, done.stderr) == (0, "")
    checked(shell)
    assert {schema: described(database_url, schema) for schema in model} == model
    assert described(database_url, "tenant_a") == model["tenant_previous"]


def test_a_script_that_is_run_twice_changes_nothing(database_url: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, database_url)
    on(database_url, lambda connection: add_behind(connection, "a"))
    script = printed(shell)
    assert run_script(database_url, script).returncode == 0

    again = run_script(database_url, script)

    assert again.returncode != 0
    assert "this script is for schema tenant_a at version none" in again.stderr
    checked(shell)


def test_settings_of_the_role_have_no_effect(
    empty_database_url: str, database_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, empty_database_url)
    script = (
        "SET search_path = public; SET standard_conforming_strings = off;"
        " SET escape_string_warning = off;\n"
        f"{printed(shell)}"
    )

    assert run_script(empty_database_url, script).returncode == 0
    assert described(empty_database_url, "tenantcron") == described(database_url, "tenantcron")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_new_tenant_is_only_registered_once_the_script_was_run(
    database_url: str, tmp_path: Path, is_there: bool
) -> None:
    shell = Shell(tmp_path, database_url)
    if is_there:
        query(database_url, "CREATE SCHEMA {}", ORG_ACME)
    script = printed(shell, "--tenant", "acme", "--schema", ORG_ACME)
    assert run_script(database_url, script).returncode == 0
    made = query(database_url, "SELECT oid FROM pg_class WHERE relname = 'tenant_schedule'")

    assert shell("tenant", "create", "acme", "--schema", ORG_ACME).code == 0

    checked(shell)
    assert query(database_url, "SELECT oid FROM pg_class WHERE relname = 'tenant_schedule'") == made
    assert printed(shell, "--tenant", "acme") == NOTHING
    (tmp_path / "acme.yaml").write_text(manifest("acme", numbered(2)), encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml").code == 0


def test_the_schema_of_a_new_tenant_follows_the_pattern(database_url: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, database_url)

    called = shell("migrate", "--sql", "--tenant", "acme", TENANTCRON_SCHEMA_PATTERN="org_{tenant}")

    assert 'CREATE SCHEMA "org_acme";' in called.out
    assert query(database_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'org_acme'") == []


def test_a_schema_with_names_that_we_need_gets_no_script(database_url: str, tmp_path: Path) -> None:
    query(database_url, "CREATE SCHEMA org_acme")
    query(database_url, "CREATE TABLE org_acme.audit_record (id int)")

    called = Shell(tmp_path, database_url)(
        *("migrate", "--sql", "--tenant", "acme", "--schema", "org_acme")
    )

    assert (called.code, called.out) == (1, "")
    assert "it has `audit_record` already" in called.err


def test_a_tenant_that_cannot_have_a_script_is_named(database_url: str, tmp_path: Path) -> None:
    on(database_url, lambda connection: add_row(connection, "lost"))

    called = Shell(tmp_path, database_url)("migrate", "--sql")

    assert called.code == 1
    assert "failed lost: its schema tenant_lost is missing" in called.err


@pytest.mark.parametrize(
    "options",
    [("--tenant", "acme"), ("--check", "--tenant", "acme"), ("--sql", "--schema", "org_acme")],
)
def test_conflicting_options_are_a_usage_error(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert Shell(tmp_path)("migrate", *options).code == 2
