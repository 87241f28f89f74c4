"""Which old audit records and manifest versions the database deletes, and which it keeps."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.errors import (
    InsufficientPrivilege,
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
)
from psycopg.rows import scalar_row
from psycopg.sql import SQL, Identifier
from support.database import Server
from support.fleet import Fleet, numbered

from tenantcron.core.names import TenantId
from tenantcron.store.connection.engine import Database
from tenantcron.tenants.creation import create_tenant

SCHEMAS = ("tenantcron", "tenant_acme")
FORGET = "SELECT tenantcron.forget_audit_records(%s, %s::interval, %s)"
FORGET_VERSIONS = "SELECT tenantcron.forget_manifest_versions('acme', %s, %s)"


@pytest.fixture
async def session(database: Database, database_url: str) -> AsyncIterator[Connection[object]]:
    """A session of the superuser that owns the tables, on a database with one tenant."""
    async with database.transaction() as connection:
        await create_tenant(connection, TenantId("acme"))
    with psycopg.connect(database_url, autocommit=True, row_factory=scalar_row) as opened:
        yield opened


def record(session: Connection[object], schema: str, *ages: str) -> None:
    """Insert a record for each age."""
    for age in ages:
        session.execute(
            SQL(
                "INSERT INTO {}.audit_record (entity_type, entity_id, operation, changed_by,"
                " actor_type, actor_source, authenticated, changed_at)"
                " VALUES ('note', %s, 'create', 'ada', 'human', 'cli', false,"
                " now() - %s::interval)"
            ).format(Identifier(schema)),
            [age, age],
        )


def kept(session: Connection[object], schema: str) -> list[object]:
    statement = "SELECT entity_id FROM {}.audit_record WHERE entity_type = 'note' ORDER BY id"
    return session.execute(SQL(statement).format(Identifier(schema))).fetchall()


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("role", ["origin", "replica"])
async def test_the_owner_cannot_delete_records_younger_than_thirty_days(
    session: Connection[object], schema: str, role: str
) -> None:
    record(session, schema, "31 days", "29 days", "0 days")
    session.execute(f"SET session_replication_role = {role}")
    delete = SQL("DELETE FROM {}.audit_record WHERE entity_id = %s").format(Identifier(schema))
    for age in ("29 days", "0 days"):
        with pytest.raises(ObjectNotInPrerequisiteState, match="append only") as refused:
            session.execute(delete, [age])
        assert refused.value.diag.message_hint == "A record is kept for at least 30 days."
    with pytest.raises(ObjectNotInPrerequisiteState, match="append only"):
        session.execute(SQL("DELETE FROM {}.audit_record").format(Identifier(schema)))
    assert kept(session, schema) == ["31 days", "29 days", "0 days"]

    session.execute(delete, ["31 days"])
    assert kept(session, schema) == ["29 days", "0 days"]


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(
    "change", ["UPDATE {}.audit_record SET changed_at = '-infinity'", "TRUNCATE {}.audit_record"]
)
async def test_an_old_record_cannot_be_changed(
    session: Connection[object], schema: str, change: str
) -> None:
    record(session, schema, "500 days")
    with pytest.raises(ObjectNotInPrerequisiteState, match="append only"):
        session.execute(SQL(change).format(Identifier(schema)))


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_the_oldest_records_are_deleted_in_batches(
    session: Connection[object], schema: str
) -> None:
    record(session, schema, "500 days", "450 days", "401 days", "399 days", "1 day")

    assert session.execute(FORGET, [schema, "400 days", 2]).fetchone() == 2
    assert session.execute(FORGET, [schema, "400 days", 2]).fetchone() == 1
    assert session.execute(FORGET, [schema, "400 days", 2]).fetchone() == 0
    assert kept(session, schema) == ["399 days", "1 day"]


async def test_an_age_below_thirty_days_is_rejected(session: Connection[object]) -> None:
    record(session, "tenant_acme", "40 days")
    for age in ("29 days", "0", "-1 day", "719 hours"):
        with pytest.raises(InvalidParameterValue, match="at least 30 days"):
            session.execute(FORGET, ["tenant_acme", age, 1])
    assert kept(session, "tenant_acme") == ["40 days"]


async def test_only_schemas_of_tenants_are_changed(session: Connection[object]) -> None:
    session.execute("CREATE SCHEMA other; CREATE TABLE other.audit_record (changed_at timestamptz)")
    session.execute("INSERT INTO other.audit_record VALUES ('2000-01-01')")
    for schema in ("other", "missing", 'x"; DROP TABLE tenantcron.tenant; --'):
        assert session.execute(FORGET, [schema, "400 days", 10]).fetchone() == 0
    assert session.execute("SELECT count(*) FROM other.audit_record").fetchone() == 1


async def test_a_tenant_whose_table_is_missing_or_not_migrated_is_skipped(
    session: Connection[object],
) -> None:
    record(session, "tenant_acme", "500 days")
    session.execute(
        "DROP TRIGGER audit_record_kept ON tenant_acme.audit_record;"
        "CREATE OR REPLACE TRIGGER audit_record_append_only"
        " BEFORE UPDATE OR DELETE OR TRUNCATE ON tenant_acme.audit_record"
        " FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change()"
    )
    assert session.execute(FORGET, ["tenant_acme", "400 days", 10]).fetchone() == 0
    assert kept(session, "tenant_acme") == ["500 days"]
    session.execute("DROP TABLE tenant_acme.audit_record")
    assert session.execute(FORGET, ["tenant_acme", "400 days", 10]).fetchone() == 0


async def test_a_locked_table_is_skipped_without_waiting(
    session: Connection[object], database_url: str
) -> None:
    record(session, "tenant_acme", "500 days")
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE tenant_acme.audit_record")
        assert session.execute(FORGET, ["tenant_acme", "400 days", 10]).fetchone() == 0
    assert session.execute(FORGET, ["tenant_acme", "400 days", 10]).fetchone() == 1


def version(session: Connection[object], number: int) -> str:
    """Insert a manifest version; return its id."""
    made = str(uuid4())
    session.execute(
        "INSERT INTO tenantcron.manifest_version (id, tenant_id, version, checksum,"
        " source_checksum, document, applied_by, applied_at)"
        " VALUES (%s, 'acme', %s, %s, '', '{\"schedules\": []}', 'ada', now())",
        [made, number, str(number)],
    )
    return made


def versions(session: Connection[object]) -> list[object]:
    return session.execute(
        "SELECT version FROM tenantcron.manifest_version ORDER BY version"
    ).fetchall()


async def test_the_newest_versions_and_those_that_schedules_refer_to_are_kept(
    session: Connection[object],
) -> None:
    made = [version(session, number) for number in range(1, 31)]
    session.execute(
        "INSERT INTO tenant_acme.tenant_schedule (id, schedule_name, saga_name, cron_expr,"
        " timezone, manifest_version_id, definition, created_at, updated_at)"
        " VALUES (gen_random_uuid(), 'old', 'old', '0 2 * * *', 'UTC', %s, '{}', now(), now())",
        [made[2]],
    )

    assert session.execute(FORGET_VERSIONS, [10, 5]).fetchone() == 5
    assert versions(session) == [3, *range(7, 31)]
    assert session.execute(FORGET_VERSIONS, [10, 100]).fetchone() == 14
    assert session.execute(FORGET_VERSIONS, [10, 100]).fetchone() == 0
    assert versions(session) == [3, *range(21, 31)]


async def test_versions_of_a_tenant_without_a_schema_are_deleted_too(
    session: Connection[object],
) -> None:
    for number in range(1, 13):
        version(session, number)
    session.execute("DROP SCHEMA tenant_acme CASCADE")
    assert session.execute(FORGET_VERSIONS, [10, 100]).fetchone() == 2
    assert versions(session) == list(range(3, 13))


async def test_fewer_than_ten_versions_cannot_be_kept(session: Connection[object]) -> None:
    for number in range(1, 13):
        version(session, number)
    with pytest.raises(InvalidParameterValue, match="at least 10"):
        session.execute(FORGET_VERSIONS, [9, 100])


async def test_a_login_without_the_grant_cannot_delete_records(
    session: Connection[object], server: Server
) -> None:
    server.execute("CREATE ROLE {}", "curious")
    try:
        session.execute("GRANT USAGE ON SCHEMA tenantcron TO curious")
        session.execute("SET ROLE curious")
        with pytest.raises(InsufficientPrivilege):
            session.execute(FORGET, ["tenantcron", "400 days", 1])
        with pytest.raises(InsufficientPrivilege):
            session.execute(FORGET_VERSIONS, [100, 1])
        session.execute("RESET ROLE")
        session.execute("DROP OWNED BY curious")
    finally:
        server.execute("DROP ROLE {}", "curious")


async def test_deleting_old_versions_does_not_change_the_tenant(
    database: Database, tmp_path: Path
) -> None:
    fleet = Fleet(database, tmp_path)
    fleet.write("acme", numbered(3))
    await fleet.apply()
    for number in range(12):
        fleet.write("acme", numbered(3) | {"moving": f'cron: "{number} 5 * * *"'})
        await fleet.apply()
    async with fleet.database.transaction() as connection:
        statement = "SELECT tenantcron.forget_manifest_versions('acme', 10, 100)"
        forgotten = (await connection.exec_driver_sql(statement)).scalar_one()
    assert forgotten == 2
    (outcome,) = await fleet.plan()
    assert outcome.plan is not None
    assert outcome.plan.is_empty
    assert not outcome.drift
