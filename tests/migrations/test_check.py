"""`migrate --check`: the database is as this program expects it, or differences are named."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from support.fleet import Shell, query
from support.tenants import add_behind, add_current, add_row

from tenantcron.migrations import check as checking
from tenantcron.migrations.check import check
from tenantcron.migrations.expected import expected_objects
from tenantcron.migrations.generate import built_objects
from tenantcron.store.connection.engine import Database
from tenantcron.store.schema import catalog
from tenantcron.store.schema.tenant_tables import create_tenant_schema
from tenantcron.store.schema.versions import CONTROL_VERSION, TENANT_VERSION


async def test_the_lists_are_what_all_migrations_build(database: Database) -> None:
    built = await built_objects(database)

    assert built["control"] == list(expected_objects("control")), "run `make generated`"
    assert built["tenant"] == list(expected_objects("tenant")), "run `make generated`"


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


LOSSES = {
    "DROP TABLE tenantcron.failover_loss": "schema tenantcron: table failover_loss",
    "ALTER TABLE tenantcron.failover ALTER timeline TYPE bigint": (
        "schema tenantcron: column failover.timeline integer not null"
    ),
    "ALTER TABLE tenantcron.tenant ALTER weight DROP NOT NULL": (
        "schema tenantcron: column tenant.weight smallint not null"
    ),
    "DROP INDEX tenantcron.tenant_moved_idx": "schema tenantcron: index tenant_moved_idx",
    "ALTER TABLE tenantcron.identity DROP CONSTRAINT identity_tenant_id_fkey": (
        "schema tenantcron: constraint identity_tenant_id_fkey on identity"
    ),
    "CREATE OR REPLACE FUNCTION tenantcron.refuse_change() RETURNS trigger LANGUAGE plpgsql"
    " AS 'BEGIN RETURN NULL; END'": "schema tenantcron: function refuse_change()",
    "GRANT EXECUTE ON FUNCTION tenantcron.tell_pause() TO PUBLIC": (
        "schema tenantcron: function tell_pause() security definer"
    ),
    "DROP VIEW tenantcron.metering": "schema tenantcron: view metering",
    "ALTER TABLE tenant_acme.audit_record DISABLE TRIGGER audit_record_append_only": (
        "tenant acme (tenant_acme): trigger audit_record_append_only on audit_record always"
    ),
    "ALTER TABLE tenant_acme.tenant_schedule DISABLE ROW LEVEL SECURITY": (
        "tenant acme (tenant_acme): row security on tenant_schedule"
    ),
    "DROP POLICY seen ON tenant_acme.audit_record": (
        "tenant acme (tenant_acme): policy seen on audit_record"
    ),
    "DROP TABLE tenant_acme.tenant_schedule": ("tenant acme (tenant_acme): table tenant_schedule"),
    "REVOKE USAGE ON SCHEMA tenant_acme FROM tenantcron_api": (
        "tenant acme (tenant_acme): cannot be read by the role tenantcron_api"
    ),
}


@pytest.mark.parametrize("statement", LOSSES)
def test_every_missing_or_changed_object_is_named(
    shell: Shell, database_url: str, statement: str
) -> None:
    shell("tenant", "create", "acme")
    assert shell("migrate", "--check").code == 0
    query(database_url, statement)

    called = shell("migrate", "--check")

    assert called.code == 1
    assert f"differs {LOSSES[statement]}" in called.out


def test_other_tables_and_history_partitions_are_not_differences(
    shell: Shell, database_url: str
) -> None:
    shell("tenant", "create", "acme")
    query(database_url, "CREATE TABLE tenant_acme.invoice (id int)")
    query(database_url, "CREATE VIEW tenantcron.platforms_own AS SELECT 1 AS x")
    assert shell("run", "--once").code == 0

    assert shell("migrate", "--check").code == 0


def test_a_database_without_tenantcron_is_a_difference(
    empty_database_url: str, tmp_path: Path
) -> None:
    called = Shell(tmp_path, empty_database_url)("migrate", "--check", "--format", "json")

    assert called.code == 1
    assert json.loads(called.out) == {
        "control": None,
        "tenants": 0,
        "differences": [{"tenant": None, "schema": "tenantcron", "problem": "is missing"}],
    }


async def test_tenants_that_are_behind_or_broken_are_named(database: Database) -> None:
    async with database.transaction() as connection:
        await add_behind(connection, "behind")
        await add_row(connection, "lost")
        await add_current(connection, "current")

    found = {
        difference.tenant: difference.problem for difference in (await check(database)).differences
    }

    assert found["behind"] == f"is at no version, expected {TENANT_VERSION}"
    assert "its schema tenant_lost is missing" in found["lost"]
    assert found.keys() == {"behind", "lost"}


def test_a_newer_database_is_as_expected(shell: Shell, database_url: str) -> None:
    query(database_url, "UPDATE tenantcron.schema_version SET version_num = '9999_later'")
    query(database_url, "DROP VIEW tenantcron.metering")

    assert shell("migrate", "--check").code == 0


async def test_there_is_no_query_per_tenant(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "_SCHEMAS_A_QUERY", 4)
    async with database.transaction() as connection:
        for number in range(8):
            await add_current(connection, f"t{number}")
    sent: list[str] = []
    event.listen(
        database.engine.sync_engine, "before_cursor_execute", lambda *args: sent.append(args[2])
    )

    checked = await check(database)

    assert (checked.control, checked.tenants, checked.differences) == (CONTROL_VERSION, 8, ())
    assert len([statement for statement in sent if "pg_policy" in statement]) == 1 + 8 / 4


def scans(plan: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield how often a plan has read which table, and how."""
    if "Relation Name" in plan:
        yield plan["Relation Name"], plan["Node Type"], plan["Actual Loops"]
    for part in plan.get("Plans", []):
        yield from scans(part)


async def test_the_catalog_is_not_read_once_for_each_schema(database: Database) -> None:
    schemas = [f"tenant_t{number}" for number in range(20)]
    async with database.transaction() as connection:
        for schema in schemas:
            await create_tenant_schema(connection, schema)
        explain = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {catalog._MISSING.text}")
        values = {"schemas": schemas, "expected": list(expected_objects("tenant"))}
        [found] = await connection.scalar(explain, values)

    read = [loops for _, kind, loops in scans(found["Plan"]) if kind == "Seq Scan"]
    assert set(read) <= {1}
