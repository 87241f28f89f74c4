"""Existing schemas: adopted, used, and left as they were."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import DictRow
from support.fleet import DEPLOYER, Shell, footprint, manifest, numbered, query
from support.schemas import everything_in

from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import SchemaName
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.tenants import TenantLimits
from tenantcron.tenants.errors import TenantError
from tenantcron.tenants.registry import Registry

ACME, UMBRA = TenantId("acme"), TenantId("umbra")
ORG_ACME = SchemaName("org_acme")
PATTERN = "org_{tenant}"
DROP = ("--reason", "over", "--drop-schema", "--confirm", "acme")
# Quotes, capitals, spaces and characters with a meaning for drivers and formats.
ODD_NAMES = ["Org-Acme", 'say "acme"', "100%s {x} :y", "o'neil\\n", "größe.org"]


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


@pytest.fixture
def registry(database: Database) -> Registry:
    return Registry(database, DEPLOYER)


def have_schema(url: str, name: str = ORG_ACME) -> list[str]:
    """Make a schema as a platform has it; return what is in it."""
    query(url, "CREATE SCHEMA {}", name)
    query(url, "CREATE TABLE {}.invoice (id int PRIMARY KEY, note text)", name)
    query(url, "INSERT INTO {}.invoice VALUES (1, 'kept')", name)
    query(url, "CREATE VIEW {}.notes AS SELECT note FROM {}.invoice", name, name)
    return everything_in(url, name)


def tenant_row(url: str) -> DictRow:
    [row] = query(url, "SELECT schema_name, schema_adopted, status FROM tenantcron.tenant")
    return row


def apply(shell: Shell, count: int = 2, **variables: str) -> int:
    (shell.folder / "acme.yaml").write_text(manifest("acme", numbered(count)), encoding="utf-8")
    called = shell("apply-manifest", "acme.yaml", "--create-tenants", **variables)
    assert called.code == 0, called
    return called.code


def test_an_existing_schema_is_adopted_and_its_objects_are_not_touched(
    shell: Shell, database_url: str
) -> None:
    before = have_schema(database_url)

    called = shell("tenant", "create", "acme", "--schema", "org_acme", "--format", "json")

    assert called.code == 0, called
    [shown] = json.loads(called.out)["tenants"]
    assert (shown["schema"], shown["schema_adopted"]) == ("org_acme", True)
    assert "schema: org_acme (adopted)" in shell("tenant", "show", "acme").out
    assert set(before) < set(everything_in(database_url, ORG_ACME))
    assert query(database_url, "SELECT * FROM {}.tenant_schedule", ORG_ACME) == []


def test_deprovisioning_leaves_an_adopted_schema_as_it_was(shell: Shell, database_url: str) -> None:
    before = have_schema(database_url)
    shell("tenant", "create", "acme", "--schema", "org_acme")
    apply(shell)

    called = shell("tenant", "deprovision", "acme", *DROP)

    assert called.code == 0, called
    assert "schema `org_acme` is kept: tenantcron did not create it" in called.err
    assert everything_in(database_url, ORG_ACME) == before
    assert query(database_url, "SELECT note FROM {}.invoice", ORG_ACME) == [{"note": "kept"}]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_tenant_lives_in_a_schema_of_any_name(shell: Shell, database_url: str, name: str) -> None:
    before = have_schema(database_url, name)
    assert shell("tenant", "create", "acme", "--schema", name).code == 0
    apply(shell)

    assert shell("plan", "acme.yaml").code == 0
    assert shell("run", "--once").code == 0
    assert shell("schedule", "list").code == 0
    assert shell("schedule", "show", "acme/s000").code == 0
    assert shell("migrate", "--check").code == 0
    assert shell("tenant", "deprovision", "acme", *DROP).code == 0
    assert everything_in(database_url, name) == before


def test_a_schema_given_by_name_must_exist(shell: Shell, database_url: str) -> None:
    called = shell("tenant", "create", "acme", "--schema", "org_acm")

    assert called.code == 1
    assert "schema `org_acm` does not exist: create it first" in called.err
    assert query(database_url, "SELECT * FROM tenantcron.tenant") == []


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("CREATE TABLE {}.audit_record (id int)", "`audit_record`"),
        ("CREATE VIEW {}.tenant_schedule AS SELECT 1 AS x", "`tenant_schedule`"),
        ("CREATE TYPE {}.schema_version AS ENUM ('a')", "`schema_version`"),
        ("CREATE SEQUENCE {}.tenant_schedule_pkey", "`tenant_schedule_pkey`"),
    ],
)
def test_a_name_that_is_taken_is_an_error_before_anything_is_written(
    shell: Shell, database_url: str, statement: str, name: str
) -> None:
    have_schema(database_url)
    query(database_url, statement, ORG_ACME)
    before, rows = everything_in(database_url, ORG_ACME), footprint(database_url)

    called = shell("tenant", "create", "acme", "--schema", "org_acme")

    assert called.code == 1
    assert f"it has {name} already, and tenantcron needs these names" in called.err
    assert (everything_in(database_url, ORG_ACME), footprint(database_url)) == (before, rows)


def test_tables_of_our_names_that_are_not_ours_are_not_registered(
    shell: Shell, database_url: str
) -> None:
    query(database_url, "CREATE SCHEMA {}", ORG_ACME)
    for table in ("tenant_schedule", "audit_record", "schema_version"):
        query(database_url, "CREATE TABLE {}.{} (id uuid NOT NULL)", ORG_ACME, table)

    called = shell("tenant", "create", "acme", "--schema", "org_acme")

    assert called.code == 1
    assert "its tables are not those of tenantcron" in called.err
    assert query(database_url, "SELECT * FROM tenantcron.tenant") == []


def test_objects_that_depend_on_our_tables_stop_deprovisioning_and_are_named(
    shell: Shell, database_url: str
) -> None:
    have_schema(database_url)
    shell("tenant", "create", "acme", "--schema", "org_acme")
    view = "CREATE VIEW {}.upcoming AS SELECT schedule_name FROM {}.tenant_schedule"
    query(database_url, view, ORG_ACME, ORG_ACME)
    before = everything_in(database_url, ORG_ACME)

    called = shell("tenant", "deprovision", "acme", *DROP)

    assert called.code == 1
    assert "view org_acme.upcoming depends on table org_acme.tenant_schedule" in called.err
    assert everything_in(database_url, ORG_ACME) == before
    assert tenant_row(database_url)["status"] == "active"


def test_a_schema_of_ours_is_kept_if_something_else_is_in_it(
    shell: Shell, database_url: str
) -> None:
    shell("tenant", "create", "acme")
    query(database_url, "CREATE TABLE tenant_acme.invoice (id int)")

    called = shell("tenant", "deprovision", "acme", *DROP)

    assert called.code == 0, called
    assert "schema `tenant_acme` is kept: it also has table tenant_acme.invoice" in called.err
    left = query(database_url, "SELECT relname FROM pg_class WHERE relname = 'invoice'")
    assert left == [{"relname": "invoice"}]
    assert shell("tenant", "resume", "acme").code == 1
    assert shell("migrate").code == shell("migrate", "--check").code == 0


def test_create_tenants_follows_the_pattern(shell: Shell, database_url: str) -> None:
    have_schema(database_url)
    query(database_url, "CREATE SCHEMA {}", "elsewhere")

    apply(shell, TENANTCRON_SCHEMA_PATTERN=PATTERN)
    shell("tenant", "create", "umbra", TENANTCRON_SCHEMA_PATTERN=PATTERN)

    rows = query(database_url, "SELECT id, schema_name, schema_adopted FROM tenantcron.tenant")
    assert [tuple(row.values()) for row in rows] == [
        ("acme", "org_acme", True),
        ("umbra", "org_umbra", False),
    ]


async def test_two_tenants_never_share_a_schema(registry: Registry, database_url: str) -> None:
    query(database_url, "CREATE SCHEMA {}", ORG_ACME)

    results = await asyncio.gather(
        *(registry.create(tenant, TenantLimits(), schema=ORG_ACME) for tenant in (ACME, UMBRA)),
        return_exceptions=True,
    )

    [error] = [result for result in results if isinstance(result, BaseException)]
    assert isinstance(error, TenantError)
    owner = query(database_url, "SELECT id FROM tenantcron.tenant")[0]["id"]
    assert f"schema `org_acme` belongs to tenant `{owner}`" in str(error)


def test_an_apply_reports_that_the_schema_is_another_tenants(
    shell: Shell, database_url: str
) -> None:
    query(database_url, "CREATE SCHEMA {}", ORG_ACME)
    shell("tenant", "create", "umbra", "--schema", "org_acme")
    (shell.folder / "acme.yaml").write_text(manifest("acme", numbered(1)), encoding="utf-8")
    options = ("--create-tenants", "--format", "json")

    called = shell("apply-manifest", "acme.yaml", *options, TENANTCRON_SCHEMA_PATTERN=PATTERN)

    assert called.code == 1
    [outcome] = json.loads(called.out)["tenants"]
    assert "schema `org_acme` belongs to tenant `umbra`" in outcome["error"]["message"]


@pytest.fixture
def api_role(database_url: str) -> Iterator[psycopg.Connection[DictRow]]:
    with psycopg.connect(database_url, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute("SET ROLE tenantcron_api")
        yield connection


def test_the_api_sees_the_schedules_of_the_tenant_that_a_request_is_bound_to(
    shell: Shell, database_url: str, api_role: psycopg.Connection[DictRow]
) -> None:
    have_schema(database_url)
    shell("tenant", "create", "acme", "--schema", "org_acme")
    apply(shell)
    seen = {}
    for tenant in ("acme", "umbra", "*", ""):
        api_role.execute("SELECT set_config('tenantcron.tenant', %s, true)", [tenant])
        rows = api_role.execute("SELECT schedule_name FROM org_acme.tenant_schedule").fetchall()
        seen[tenant] = len(rows)

    assert seen == {"acme": 2, "umbra": 0, "*": 2, "": 0}
