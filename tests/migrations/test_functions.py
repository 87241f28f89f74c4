"""Every function of the control schema, whichever migration adds it: callers and search path."""

from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Connection
from support.database import migrate_url

from tenantcron.core.settings import Settings
from tenantcron.migrations import runner
from tenantcron.migrations.history import history
from tenantcron.store.connection.engine import open_database
from tenantcron.store.connection.scripts import run_script
from tenantcron.store.schema.tenant_tables import ensure_control_schema

FUNCTIONS = """
SELECT p.oid::regprocedure::text AS name, p.prosqlbody IS NOT NULL AS is_parsed, p.proconfig,
    has_function_privilege('public', p.oid, 'EXECUTE') AS is_public
FROM pg_proc AS p WHERE p.pronamespace = 'tenantcron'::regnamespace
"""
# Row-level security calls it for each row unless Postgres inlines it, which it does not do for a
# function with settings.
INLINED = {"tenantcron.sees(text)", "tenantcron.sees_schema(text)"}


def functions(url: str) -> list[dict[str, object]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(FUNCTIONS).fetchall()


def test_no_function_is_open_to_public(database_url: str) -> None:
    found = functions(database_url)
    assert len(found) > 20
    assert [row["name"] for row in found if row["is_public"]] == []


def test_no_function_depends_on_the_search_path_of_its_caller(database_url: str) -> None:
    for row in functions(database_url):
        pinned = "search_path=pg_catalog, pg_temp" in (row["proconfig"] or ())  # type: ignore[operator] # a list
        assert row["is_parsed"] or pinned, row


def test_functions_of_row_level_security_can_be_inlined(database_url: str) -> None:
    found = {row["name"]: row for row in functions(database_url)}
    for name in INLINED:
        assert (found[name]["is_parsed"], found[name]["proconfig"]) == (True, None)


async def test_a_function_of_a_later_migration_is_closed_by_migrate(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade = runner._upgrade

    def upgrade_and_add(connection: Connection, kind: runner.Kind, schema: str) -> None:
        upgrade(connection, kind, schema)
        later = "CREATE FUNCTION tenantcron.later() RETURNS int LANGUAGE sql RETURN 1"
        run_script(connection, later)

    monkeypatch.setattr(runner, "_upgrade", upgrade_and_add)
    await migrate_url(empty_database_url)

    (later,) = [row for row in functions(empty_database_url) if row["name"] == "tenantcron.later()"]
    assert later["is_public"] is False


async def test_roles_that_use_the_schema_keep_what_reading_and_recording_need(
    empty_database_url: str, tmp_path: Path
) -> None:
    """A scheduler of the previous release continues between `migrate` and `grants.sql`."""
    settings = Settings(database_url=empty_database_url, folder=tmp_path)
    names = [script.revision for script in history("control").scripts.walk_revisions()][::-1]
    scripts = history("control").scripts_from(None, "tenantcron")
    first = names.index("0011_rights")
    rights = """
    CREATE ROLE former_scheduler;
    GRANT USAGE ON SCHEMA tenantcron TO former_scheduler;
    GRANT SELECT, UPDATE ON tenantcron.tenant, tenantcron.limits TO former_scheduler;
    GRANT INSERT ON tenantcron.audit_record TO former_scheduler;
    """
    works = """
    SET LOCAL ROLE former_scheduler;
    SELECT FROM tenantcron.tenant;
    UPDATE tenantcron.limits SET declared = 7;
    """
    async with open_database(settings) as database, database.transaction() as connection:
        await ensure_control_schema(connection)
        for script in (*scripts[:first], rights, works, "RESET ROLE", *scripts[first:], works):
            await connection.run_sync(run_script, script)
        # Roles belong to the server, which other tests use, too.
        await connection.rollback()
