"""Rows of `tenant_schedule`, in the schemas of the tenants. The reconciler writes them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg import sql
from sqlalchemy import Uuid, bindparam, column, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.store.engine import of_tenant
from tenantcron.store.tables import tenant_schedule

# The columns that a manifest decides; ids and times are the database's.
DEFINITION = ("schedule_name", "saga_name", "cron_expr", "timezone", "enabled", "definition")

# More schemas a statement cost more in planning than they save in round trips.
SCHEMAS_A_STATEMENT = 50

# One row per schema. The array is put together as text, as jsonb would write it, at half the cost.
# The order is that of Python, whatever the database's collation, and so that of a document.
_LIVE = sql.SQL(
    """
    SELECT {tenant}, count(*),
        concat('[', string_agg(jsonb_build_object(
            'schedule_name', schedule_name, 'saga_name', saga_name, 'cron_expr', cron_expr,
            'timezone', timezone, 'enabled', enabled, 'definition', definition
        )::text, ', ' ORDER BY schedule_name COLLATE "C"), ']'),
        concat(string_agg(id::text, ' ' ORDER BY schedule_name COLLATE "C"))
    FROM {schema}.tenant_schedule
    """
)
# All rows come as one JSON parameter: the database parses and plans one statement, not one a row.
_GIVEN = (
    func.jsonb_to_recordset(bindparam("rows", type_=JSONB))
    .table_valued(*(column(name, tenant_schedule.c[name].type) for name in DEFINITION))
    .render_derived(name="given", with_types=True)
)
_VERSION = bindparam("version_id", type_=Uuid)
_ADD = insert(tenant_schedule).from_select(
    ["id", *DEFINITION, "manifest_version_id", "created_at", "updated_at"],
    select(func.gen_random_uuid(), *_GIVEN.c, _VERSION, func.now(), func.now()),
)
_CHANGE = (
    update(tenant_schedule)
    .where(tenant_schedule.c.schedule_name == _GIVEN.c.schedule_name)
    .values(
        {name: _GIVEN.c[name] for name in DEFINITION if name != "schedule_name"}
        | {"manifest_version_id": _VERSION, "updated_at": func.now()}
    )
)


@dataclass(frozen=True, slots=True)
class LiveSchedules:
    """The schedules of one tenant, in the database's own spelling of JSON.

    Of most tenants it is only compared, as text, with what was applied: reading it into objects
    would be most of the work for a fleet without changes.
    """

    count: int
    # The definition columns of each schedule, by name: what a manifest version's document holds.
    definitions: str
    # In the same order.
    ids: str


async def read(connection: AsyncConnection, tenant: TenantId, schema: str) -> LiveSchedules:
    """Return the schedules of one tenant."""
    ((_, live),) = await _read(connection, [(tenant, schema)])
    return live


@dataclass(frozen=True, slots=True)
class Fleet:
    """The schedules of many tenants, and the tenants whose schema cannot be read, with why."""

    live: dict[TenantId, LiveSchedules]
    broken: dict[TenantId, str]


async def read_many(connection: AsyncConnection, schemas: Mapping[TenantId, str]) -> Fleet:
    """Return the schedules of many tenants, some fifty schemas a statement."""
    fleet = Fleet({}, {})
    for batch in _batches(list(schemas.items())):
        await _read_batch(connection, batch, fleet)
    return fleet


async def _read_batch(
    connection: AsyncConnection, batch: Sequence[tuple[TenantId, str]], fleet: Fleet
) -> None:
    """Read a batch; if a schema in it is broken, halve it until that one stands alone."""
    try:
        async with connection.begin_nested():
            fleet.live.update(await _read(connection, batch))
    except ProgrammingError as error:
        if len(batch) == 1:
            fleet.broken[batch[0][0]] = str(error.orig).partition("\n")[0]
            return
        middle = len(batch) // 2
        await _read_batch(connection, batch[:middle], fleet)
        await _read_batch(connection, batch[middle:], fleet)


async def _read(
    connection: AsyncConnection, schemas: Sequence[tuple[TenantId, str]]
) -> list[tuple[TenantId, LiveSchedules]]:
    rows = await connection.exec_driver_sql(
        _union(schemas), execution_options={"no_parameters": True}
    )
    return [(tenant, LiveSchedules(*columns)) for tenant, *columns in map(tuple, rows)]


async def add(
    connection: AsyncConnection, schema: str, rows: Sequence[JsonObject], version_id: UUID
) -> None:
    """Insert schedules by their definition columns, in one statement however many there are."""
    if rows:
        parameters = {"rows": rows, "version_id": version_id}
        await of_tenant(connection, schema).execute(_ADD, parameters)


async def change(
    connection: AsyncConnection, schema: str, rows: Sequence[JsonObject], version_id: UUID
) -> None:
    """Update schedules by name, in one statement however many there are."""
    if rows:
        parameters = {"rows": rows, "version_id": version_id}
        await of_tenant(connection, schema).execute(_CHANGE, parameters)


async def remove(connection: AsyncConnection, schema: str, names: Sequence[str]) -> None:
    """Delete schedules by name."""
    if names:
        statement = delete(tenant_schedule).where(
            tenant_schedule.c.schedule_name == func.any(list(names))
        )
        await of_tenant(connection, schema).execute(statement)


def _batches(
    schemas: Sequence[tuple[TenantId, str]],
) -> Iterator[Sequence[tuple[TenantId, str]]]:
    for start in range(0, len(schemas), SCHEMAS_A_STATEMENT):
        yield schemas[start : start + SCHEMAS_A_STATEMENT]


def _union(schemas: Sequence[tuple[TenantId, str]]) -> str:
    """Return one statement over several schemas; ids and schemas come from the tenant table."""
    selects = (
        _LIVE.format(tenant=sql.Literal(str(tenant)), schema=sql.Identifier(schema))
        for tenant, schema in schemas
    )
    return sql.SQL(" UNION ALL ").join(selects).as_string()
