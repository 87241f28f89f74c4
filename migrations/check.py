"""Check whether the database is as this program expects it: `tenantcron migrate --check`.

It reads versions and the catalog and changes nothing, so a read-only role can run it. A schema that
is newer than the program is fine, as it is for `migrate`: its objects are not compared.
Transactions are as small as those of `migrate`. Objects are compared by one catalog query for a few
hundred schemas at a time, which locks none of their tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenantcron.migrations.expected import expected_objects
from tenantcron.store.connection.engine import Database
from tenantcron.store.schema import api_role
from tenantcron.store.schema.catalog import missing_objects
from tenantcron.store.schema.tables import CONTROL_SCHEMA
from tenantcron.store.schema.tenant_versions import TenantVersion, tenant_versions
from tenantcron.store.schema.versions import CONTROL_VERSION, TENANT_VERSION, control_version

_SCHEMAS_A_QUERY = 500


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """A difference to what is expected."""

    schema: str
    # None: it is about the control schema.
    tenant: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """The result of a check."""

    control: str | None
    tenants: int
    differences: tuple[SchemaDifference, ...]


async def check(database: Database) -> SchemaCheck:
    """Compare the control schema and all tenants with what this program expects."""
    async with database.transaction() as connection:
        version = await control_version(connection)
    if version is None or version < CONTROL_VERSION:
        return SchemaCheck(version, 0, (_control_behind(version),))
    found = [*await _control_objects(database, version)]
    tenants = await tenant_versions(database)
    found += [difference for tenant in tenants for difference in _versions(tenant)]
    found += await _tenant_objects(database, tenants)
    found += await _closed_to_api(database, tenants)
    return SchemaCheck(version, len(tenants), tuple(found))


def _control_behind(version: str | None) -> SchemaDifference:
    problem = "is missing" if version is None else f"is at {version}, expected {CONTROL_VERSION}"
    return SchemaDifference(CONTROL_SCHEMA, None, problem)


async def _control_objects(database: Database, version: str) -> list[SchemaDifference]:
    if version > CONTROL_VERSION:
        return []
    async with database.transaction() as connection:
        lines = await missing_objects(connection, [CONTROL_SCHEMA], expected_objects("control"))
    return [SchemaDifference(schema, None, _absent(line)) for schema, line in lines]


def _versions(tenant: TenantVersion) -> Iterator[SchemaDifference]:
    if tenant.broken is not None:
        yield SchemaDifference(tenant.schema, tenant.tenant, tenant.broken)
    elif not tenant.is_current:
        problem = f"is at {tenant.version or 'no version'}, expected {TENANT_VERSION}"
        yield SchemaDifference(tenant.schema, tenant.tenant, problem)


async def _tenant_objects(
    database: Database, tenants: Sequence[TenantVersion]
) -> list[SchemaDifference]:
    by_schema = {
        tenant.schema: tenant.tenant for tenant in tenants if tenant.version == TENANT_VERSION
    }
    schemas, found = list(by_schema), list[SchemaDifference]()
    for start in range(0, len(schemas), _SCHEMAS_A_QUERY):
        some = schemas[start : start + _SCHEMAS_A_QUERY]
        async with database.transaction() as connection:
            lines = await missing_objects(connection, some, expected_objects("tenant"))
        found += [
            SchemaDifference(schema, by_schema[schema], _absent(line)) for schema, line in lines
        ]
    return found


async def _closed_to_api(
    database: Database, tenants: Sequence[TenantVersion]
) -> list[SchemaDifference]:
    """Report tenants whose tables the role of the API, if it exists, cannot read."""
    by_schema = {tenant.schema: tenant.tenant for tenant in tenants if tenant.broken is None}
    async with database.transaction() as connection:
        closed = await api_role.unreadable_schemas(connection)
    problem = f"cannot be read by the role {api_role.NAME}: grant it USAGE on the schema"
    return [
        SchemaDifference(name, by_schema[name], problem) for name in closed if name in by_schema
    ]


def _absent(line: str) -> str:
    return f"{line}: missing or different"
