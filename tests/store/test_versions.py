"""Whether the control schema is compatible with this program."""

from pathlib import Path

import pytest
from sqlalchemy import text

from tenantcron.core.settings import Settings
from tenantcron.migrations.history import history
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.errors import MigrationMissingError
from tenantcron.store.schema import versions
from tenantcron.store.schema.versions import require_migrated


async def require(database: Database) -> None:
    async with database.transaction() as connection:
        await require_migrated(connection)


async def stamp(database: Database, version: str) -> None:
    async with database.transaction() as connection:
        statement = text("UPDATE tenantcron.schema_version SET version_num = :version")
        await connection.execute(statement, {"version": version})


def test_the_versions_match_the_newest_migrations() -> None:
    assert history("control").newest == versions.CONTROL_VERSION
    assert history("tenant").newest == versions.TENANT_VERSION


async def test_a_migrated_database_is_fine(database: Database) -> None:
    await require(database)


async def test_an_empty_database_needs_migrate(empty_database_url: str) -> None:
    settings = Settings(database_url=empty_database_url, folder=Path())
    async with open_database(settings) as database:
        with pytest.raises(MigrationMissingError, match="run `tenantcron migrate`"):
            await require(database)


async def test_an_older_database_needs_migrate(database: Database) -> None:
    await stamp(database, "0000_before")

    with pytest.raises(MigrationMissingError, match="is at 0000_before, this program needs"):
        await require(database)


async def test_a_newer_database_is_fine(database: Database) -> None:
    await stamp(database, "9999_later")

    await require(database)
