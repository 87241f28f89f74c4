"""Create a tenant's tables at their newest version, or drop them, with or without their schema.

The statements are generated from the declared tables once per process, so a new tenant costs one
round trip and does not load Alembic. A test compares the result with all tenant migrations.
"""

from functools import cache
from typing import LiteralString

from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateIndex, CreateTable

from tenantcron.store.connection.scripts import for_schema, run_script
from tenantcron.store.schema.tables import CONTROL_SCHEMA, TENANT_SCHEMA, per_tenant
from tenantcron.store.schema.versions import TENANT_VERSION

# ALWAYS: a session with session_replication_role = replica would bypass an ordinary trigger. A
# record may be deleted after 30 days (docs/decisions/0034).
_APPEND_ONLY = """
CREATE TRIGGER audit_record_append_only
    BEFORE UPDATE OR TRUNCATE ON {schema}.audit_record
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_change();
CREATE TRIGGER audit_record_kept
    BEFORE DELETE ON {schema}.audit_record
    FOR EACH ROW EXECUTE FUNCTION tenantcron.refuse_early_delete();
ALTER TABLE {schema}.audit_record
    ENABLE ALWAYS TRIGGER audit_record_append_only, ENABLE ALWAYS TRIGGER audit_record_kept;
"""
# Every change of a schedule, including a manual one, is recorded and notifies schedulers.
_RECORDING = """
CREATE TRIGGER tenant_schedule_created
    AFTER INSERT ON {schema}.tenant_schedule
    REFERENCING NEW TABLE AS becomes
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.record_schedules();
CREATE TRIGGER tenant_schedule_updated
    AFTER UPDATE ON {schema}.tenant_schedule
    REFERENCING OLD TABLE AS was NEW TABLE AS becomes
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.record_schedules();
CREATE TRIGGER tenant_schedule_deleted
    AFTER DELETE ON {schema}.tenant_schedule
    REFERENCING OLD TABLE AS was
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.record_schedules();
CREATE TRIGGER tenant_schedule_no_truncate
    BEFORE TRUNCATE ON {schema}.tenant_schedule
    FOR EACH STATEMENT EXECUTE FUNCTION tenantcron.refuse_truncate();
"""
# The rows that the role of the API sees (docs/decisions/0017).
_SEEN = """
ALTER TABLE {schema}.tenant_schedule ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON {schema}.tenant_schedule USING (tenantcron.sees_schema({name}));
ALTER TABLE {schema}.audit_record ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON {schema}.audit_record USING (tenantcron.sees_schema({name}));
SELECT tenantcron.open_to_api({name});
"""
# As Alembic would create it.
VERSION_SCRIPT = """
CREATE TABLE {schema}.schema_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT schema_version_pkc PRIMARY KEY (version_num)
);
"""
_CREATE_SCHEMA = "CREATE SCHEMA {schema};\n"
# PUBLIC may execute each new function, and default privileges of a schema cannot change that. So
# it is revoked after the migrations.
CLOSE_FUNCTIONS = "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenantcron FROM PUBLIC;\n"
# Never CASCADE: objects that depend on our tables belong to the platform (docs/decisions/0026).
_DROP_TABLES = """
DROP TABLE {schema}.tenant_schedule, {schema}.audit_record, {schema}.schema_version;
SELECT tenantcron.close_to_api({name});
"""
_DROP_CONTROL = "DROP TABLE {schema}.schema_version; DROP SCHEMA {schema};"
_SCHEMA_EXISTS = text("SELECT true FROM pg_catalog.pg_namespace WHERE nspname = :schema")


async def create_tenant_schema(connection: AsyncConnection, schema: str) -> None:
    """Create the schema with all its objects, stamped with the version.

    The control schema must exist (`require_migrated`). An existing schema of this name is an error
    of the database (DuplicateSchema).
    """
    await connection.run_sync(run_script, for_schema(_CREATE_SCHEMA + tenant_script(), schema))


async def add_tenant_tables(connection: AsyncConnection, schema: str) -> None:
    """Create the tables in an existing schema."""
    await connection.run_sync(run_script, for_schema(tenant_script(), schema))


async def has_schema(connection: AsyncConnection, schema: str) -> bool:
    """Whether the schema exists."""
    found = await connection.scalar(_SCHEMA_EXISTS, {"schema": schema})
    return bool(found)


async def ensure_control_schema(connection: AsyncConnection) -> None:
    """Create the empty control schema unless it exists; callers hold the lock of migrations."""
    # IF NOT EXISTS would require the privilege to create schemas even if the schema exists.
    if not await has_schema(connection, CONTROL_SCHEMA):
        await connection.run_sync(run_script, for_schema("CREATE SCHEMA {schema}", CONTROL_SCHEMA))


async def close_functions(connection: AsyncConnection) -> None:
    """Allow only roles with an explicit grant to execute functions of the control schema."""
    await connection.run_sync(run_script, CLOSE_FUNCTIONS)


async def drop_control_schema(connection: AsyncConnection) -> None:
    """Drop the control schema after all migrations were undone; other objects are an error."""
    await connection.run_sync(run_script, for_schema(_DROP_CONTROL, CONTROL_SCHEMA))


async def drop_tenant_tables(connection: AsyncConnection, schema: str) -> None:
    """Drop the tables; dependent objects are an error (DependentObjectsStillExist)."""
    await connection.run_sync(run_script, for_schema(_DROP_TABLES, schema))


async def drop_schema(connection: AsyncConnection, schema: str) -> None:
    """Drop an empty schema; any object in it is an error of the database."""
    await connection.run_sync(run_script, for_schema("DROP SCHEMA {schema}", schema))


@cache
def tenant_script() -> LiteralString:
    """Return the script that creates and stamps a tenant's tables in an existing schema."""
    parts = [
        _declared(),
        _APPEND_ONLY,
        _RECORDING,
        VERSION_SCRIPT,
        _stamp(),
        _SEEN,
    ]
    # No part comes from outside: only declared tables and the constants above.
    return "\n".join(parts)


def _declared() -> str:
    """Return the declared tables as a script with `{schema}` as their schema."""
    statements: list[CreateTable | CreateIndex] = []
    for table in per_tenant.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements += [CreateTable(table), *(CreateIndex(index) for index in indexes)]
    return ";\n".join(_compiled(statement) for statement in statements) + ";"


def _compiled(statement: CreateTable | CreateIndex) -> str:
    """Compile a statement. SQLAlchemy quotes the braces; `for_schema` adds the quotes itself."""
    compiled = statement.compile(
        dialect=make_url("postgresql+psycopg://").get_dialect()(),
        schema_translate_map={TENANT_SCHEMA: "{schema}"},
        render_schema_translate=True,
    )
    return str(compiled).replace('"{schema}"', "{schema}")


def _stamp() -> str:
    return f"INSERT INTO {{schema}}.schema_version (version_num) VALUES ('{TENANT_VERSION}');"  # noqa: S608 -- a constant
