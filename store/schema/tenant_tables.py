"""A tenant's tables, made at their newest version or taken away, with or without their schema.

The statements come from the declared tables and are put together once per process, so that a new
tenant costs one round trip and no Alembic. A test holds the result against all tenant migrations.
"""

from functools import cache
from typing import LiteralString

from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import CreateIndex, CreateTable

from tenantcron.store.connection.scripts import for_schema, run_script
from tenantcron.store.schema.tables import CONTROL_SCHEMA, TENANT_SCHEMA, per_tenant
from tenantcron.store.schema.versions import TENANT_VERSION

# ALWAYS: a session that poses as a replica (session_replication_role) would get past an ordinary
# trigger. A record may be deleted once it is 30 days old (docs/decisions/0034).
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
# Whoever changes a schedule, by whatever means, is put on record and noticed by schedulers.
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
# What the API's role sees of it (docs/decisions/0017).
_SEEN = """
ALTER TABLE {schema}.tenant_schedule ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON {schema}.tenant_schedule USING (tenantcron.sees_schema({name}));
ALTER TABLE {schema}.audit_record ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON {schema}.audit_record USING (tenantcron.sees_schema({name}));
SELECT tenantcron.open_to_api({name});
"""
# As Alembic would make it.
VERSION_SCRIPT = """
CREATE TABLE {schema}.schema_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT schema_version_pkc PRIMARY KEY (version_num)
);
"""
_CREATE_SCHEMA = "CREATE SCHEMA {schema};\n"
# PUBLIC may execute each new function, and default privileges of one schema cannot change that. So
# it is undone after the migrations, whichever functions they add.
CLOSE_FUNCTIONS = "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenantcron FROM PUBLIC;\n"
# Never CASCADE: what others have built on our tables is theirs (docs/decisions/0026).
_DROP_TABLES = """
DROP TABLE {schema}.tenant_schedule, {schema}.audit_record, {schema}.schema_version;
SELECT tenantcron.close_to_api({name});
"""
_DROP_CONTROL = "DROP TABLE {schema}.schema_version; DROP SCHEMA {schema};"
_SCHEMA_EXISTS = text("SELECT true FROM pg_catalog.pg_namespace WHERE nspname = :schema")


async def create_tenant_schema(connection: AsyncConnection, schema: str) -> None:
    """Create the schema with all that belongs in it, stamped with its version.

    The control schema must be there already, as `require_migrated` tells. A schema of that name
    is an error of the database (DuplicateSchema), never taken over.
    """
    await connection.run_sync(run_script, for_schema(_CREATE_SCHEMA + tenant_script(), schema))


async def add_tenant_tables(connection: AsyncConnection, schema: str) -> None:
    """Create the same in a schema that is there."""
    await connection.run_sync(run_script, for_schema(tenant_script(), schema))


async def has_schema(connection: AsyncConnection, schema: str) -> bool:
    """Whether the schema exists."""
    found = await connection.scalar(_SCHEMA_EXISTS, {"schema": schema})
    return bool(found)


async def ensure_control_schema(connection: AsyncConnection) -> None:
    """Create the empty control schema unless it is there; callers hold the migration's lock."""
    # IF NOT EXISTS would ask for the right to create schemas also where there is nothing to create.
    if not await has_schema(connection, CONTROL_SCHEMA):
        await connection.run_sync(run_script, for_schema("CREATE SCHEMA {schema}", CONTROL_SCHEMA))


async def close_functions(connection: AsyncConnection) -> None:
    """Let only roles that were granted it execute functions of the control schema."""
    await connection.run_sync(run_script, CLOSE_FUNCTIONS)


async def drop_control_schema(connection: AsyncConnection) -> None:
    """Drop the control schema, of which all migrations were undone; anything else stops it."""
    await connection.run_sync(run_script, for_schema(_DROP_CONTROL, CONTROL_SCHEMA))


async def drop_tenant_tables(connection: AsyncConnection, schema: str) -> None:
    """Drop the tables; what depends on them is an error (DependentObjectsStillExist)."""
    await connection.run_sync(run_script, for_schema(_DROP_TABLES, schema))


async def drop_schema(connection: AsyncConnection, schema: str) -> None:
    """Drop a schema with nothing in it; anything in it is an error of the database."""
    await connection.run_sync(run_script, for_schema("DROP SCHEMA {schema}", schema))


@cache
def tenant_script() -> LiteralString:
    """Return what creates a tenant's tables and stamps them; the schema is there already."""
    parts = [
        _declared(),
        _APPEND_ONLY,
        _RECORDING,
        VERSION_SCRIPT,
        _stamp(),
        _SEEN,
    ]
    # Nothing of it comes from outside: declared tables and the constants above.
    return "\n".join(parts)


def _declared() -> str:
    """The declared tables as a script with `{schema}` in place of the placeholder schema."""
    statements: list[CreateTable | CreateIndex] = []
    for table in per_tenant.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements += [CreateTable(table), *(CreateIndex(index) for index in indexes)]
    return ";\n".join(_written(statement) for statement in statements) + ";"


def _written(statement: CreateTable | CreateIndex) -> str:
    """SQLAlchemy quotes the braces like any odd name; here they stand for a quoted name."""
    compiled = statement.compile(
        dialect=make_url("postgresql+psycopg://").get_dialect()(),
        schema_translate_map={TENANT_SCHEMA: "{schema}"},
        render_schema_translate=True,
    )
    return str(compiled).replace('"{schema}"', "{schema}")


def _stamp() -> str:
    return f"INSERT INTO {{schema}}.schema_version (version_num) VALUES ('{TENANT_VERSION}');"  # noqa: S608 -- a constant
