"""The migrations themselves: what they build is what the code declares."""

from pathlib import Path

from sqlalchemy import Connection, text
from support.catalog import describe, without

from tenantcron.core.settings import Settings
from tenantcron.migrations.history import history
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.schema import tables
from tenantcron.store.schema.tenant_tables import create_tenant_schema, ensure_control_schema

# Declared in the migrations only.
UNDECLARED = ("views", "triggers", "functions", "policies")


def create_declared(connection: Connection) -> None:
    tables.control.create_all(connection, checkfirst=False)


async def test_the_declared_control_tables_are_what_all_migrations_build(
    database: Database, empty_database_url: str
) -> None:
    async with database.transaction() as connection:
        migrated = without(await describe(connection, "tenantcron"), "schema_version")
    settings = Settings(database_url=empty_database_url, folder=Path())
    async with open_database(settings) as fresh, fresh.transaction() as connection:
        await ensure_control_schema(connection)
        await connection.run_sync(create_declared)
        declared = await describe(connection, "tenantcron")

    for part in migrated.keys() - UNDECLARED:
        assert migrated[part] == declared[part], part


async def test_a_fresh_tenant_schema_is_what_all_migrations_build(database: Database) -> None:
    async with database.transaction() as connection:
        await create_tenant_schema(connection, "tenant_fresh")
        await connection.execute(text("CREATE SCHEMA tenant_old"))
        await connection.run_sync(history("tenant").upgrade, "tenant_old")
        fresh = await describe(connection, "tenant_fresh")
        migrated = await describe(connection, "tenant_old")
        stamps = await connection.execute(
            text("TABLE tenant_fresh.schema_version UNION TABLE tenant_old.schema_version")
        )

    assert fresh == migrated
    assert stamps.all() == [(history("tenant").newest,)]


async def test_control_goes_up_down_and_up_again(database: Database) -> None:
    async with database.transaction() as connection:
        up = await describe(connection, "tenantcron")
        await connection.run_sync(history("control").downgrade, "tenantcron")
        down = await describe(connection, "tenantcron")
        await connection.run_sync(history("control").upgrade, "tenantcron")
        again = await describe(connection, "tenantcron")

    assert down["tables"] == ["schema_version r "]
    assert down["views"] == []
    assert not down["functions"]
    assert again == up


async def test_a_tenant_goes_down_and_up_again(database: Database) -> None:
    schema = "tenant_up-and-down"
    async with database.transaction() as connection:
        await create_tenant_schema(connection, schema)
        up = await describe(connection, schema)
        await connection.run_sync(history("tenant").downgrade, schema)
        down = await describe(connection, schema)
        await connection.run_sync(history("tenant").upgrade, schema)
        again = await describe(connection, schema)

    assert down["tables"] == ["schema_version r "]
    assert again == up


def test_each_history_is_linear_and_sorted_by_name() -> None:
    for kind in ("control", "tenant"):
        scripts = history(kind).scripts
        oldest_first = [script.revision for script in scripts.walk_revisions()][::-1]
        assert oldest_first == sorted(oldest_first)
        assert len(scripts.get_heads()) == 1


def test_a_migration_is_in_the_file_of_its_name() -> None:
    for kind in ("control", "tenant"):
        for script in history(kind).scripts.walk_revisions():
            assert Path(script.path).stem == script.revision
