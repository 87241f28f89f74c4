"""A tenant's schema, and the protection of its audit records."""

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import DuplicateSchema, ObjectNotInPrerequisiteState
from psycopg.sql import SQL, Identifier
from sqlalchemy import event
from sqlalchemy.exc import ProgrammingError
from support.catalog import describe
from support.database import TEMPLATE, Server

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database, of_tenant, open_database
from tenantcron.store.schema import tables
from tenantcron.store.schema.tenant_tables import (
    create_tenant_schema,
    drop_schema,
    drop_tenant_tables,
)

RECORD = {
    "entity_type": "tenant_schedule",
    "entity_id": "nightly",
    "operation": "create",
    "changed_by": "system",
    "actor_type": "human",
    "actor_source": "cli",
    "authenticated": False,
}
CHANGES = {
    "update": "UPDATE {}.audit_record SET changed_by = 'mallory'",
    "update of no row": "UPDATE {}.audit_record SET changed_by = 'mallory' WHERE false",
    "delete": "DELETE FROM {}.audit_record",
    "truncate": "TRUNCATE {}.audit_record",
    "as a replica": "SET session_replication_role = replica; DELETE FROM {}.audit_record",
}


async def test_a_schema_is_created_in_one_round_trip(database: Database) -> None:
    sent: list[object] = []
    async with database.transaction() as connection:
        event.listen(
            database.engine.sync_engine, "before_cursor_execute", lambda *args: sent.append(args)
        )
        await create_tenant_schema(connection, "tenant_acme")

    assert len(sent) == 1


async def test_an_existing_schema_is_an_error(database: Database) -> None:
    async with database.transaction() as connection:
        await create_tenant_schema(connection, "tenant_acme")

    with pytest.raises(ProgrammingError) as caught:
        async with database.transaction() as connection:
            await create_tenant_schema(connection, "tenant_acme")
    assert isinstance(caught.value.orig, DuplicateSchema)


@pytest.mark.parametrize("schema", ["tenant_a-b", 'tenant_"; DROP SCHEMA tenantcron; --', "user"])
async def test_schema_names_are_quoted(database: Database, schema: str) -> None:
    async with database.transaction() as connection:
        await create_tenant_schema(connection, schema)
        assert (await describe(connection, schema))["triggers"]
        await drop_tenant_tables(connection, schema)
        await drop_schema(connection, schema)
        assert not (await describe(connection, schema))["tables"]
        assert (await describe(connection, "tenantcron"))["tables"]


async def test_the_enabled_schedules_of_a_tenant_have_an_index(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        await create_tenant_schema(connection, "tenant_acme")
        indexes = (await describe(connection, "tenant_acme"))["indexes"]

    assert (
        "CREATE INDEX tenant_schedule_enabled_idx ON tenant_schedule USING btree (schedule_name)"
        " WHERE enabled"
    ) in indexes


@pytest.mark.parametrize(
    ("index", "predicate"),
    [
        ("schedule_cursor_due_idx", "enabled AND (fault IS NULL) AND (next_run_at IS NOT NULL)"),
        ("schedule_cursor_quiet_idx", "(fault IS NOT NULL) OR (paused_at IS NOT NULL)"),
        ("execution_runnable_idx", "<> 'RUNNING'"),
        ("execution_active_idx", "'RUNNING'"),
        ("tenant_moved_idx", "schedule_revision <> synced_revision"),
    ],
)
async def test_the_queries_of_the_scheduler_have_partial_indexes(
    database: Database, index: str, predicate: str
) -> None:
    async with database.transaction() as connection:
        indexes = (await describe(connection, "tenantcron"))["indexes"]

    [definition] = [line for line in indexes if f" {index} " in line]
    assert predicate in definition.partition(" WHERE ")[2]


@pytest.fixture(scope="module")
async def audited_url(server: Server, anyio_backend: str) -> AsyncIterator[str]:  # noqa: ARG001 -- it runs this
    """A database with one record in each audit table; rejected changes have no effect."""
    with server.database(TEMPLATE) as url:
        async with (
            open_database(Settings(database_url=url, folder=Path())) as database,
            database.transaction() as connection,
        ):
            await create_tenant_schema(connection, "tenant_acme")
            await connection.execute(tables.control_audit_record.insert().values(RECORD))
            of_tenant(connection, "tenant_acme")
            await connection.execute(tables.audit_record.insert().values(RECORD))
        yield url


@pytest.mark.parametrize("schema", ["tenantcron", "tenant_acme"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_audit_record_cannot_be_changed(audited_url: str, schema: str, change: str) -> None:
    # The role is a superuser and owns the tables.
    with psycopg.connect(audited_url) as session:
        with pytest.raises(
            ObjectNotInPrerequisiteState, match=f"{schema}.audit_record is append only"
        ):
            session.execute(SQL(change).format(Identifier(schema)))
        session.rollback()
        kept = session.execute(
            SQL("SELECT changed_by FROM {}.audit_record").format(Identifier(schema))
        )
        assert kept.fetchall() == [("system",)]


async def test_an_owner_that_is_not_a_superuser_is_rejected_too(
    database: Database, database_url: str
) -> None:
    async with database.transaction() as connection:
        await create_tenant_schema(connection, "tenant_acme")
        of_tenant(connection, "tenant_acme")
        await connection.execute(tables.audit_record.insert().values(RECORD))

    with psycopg.connect(database_url) as session:
        session.execute("CREATE ROLE plain_owner; GRANT USAGE ON SCHEMA tenant_acme TO plain_owner")
        session.execute("ALTER TABLE tenant_acme.audit_record OWNER TO plain_owner")
        session.execute("SET LOCAL ROLE plain_owner")
        with pytest.raises(ObjectNotInPrerequisiteState, match="append only: DELETE"):
            session.execute("DELETE FROM tenant_acme.audit_record")
        # Roles belong to the server, which other tests use, too.
        session.rollback()
