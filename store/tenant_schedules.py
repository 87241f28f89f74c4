"""Rows of `tenant_schedule`, in the schemas of the tenants. The reconciler writes them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import sql
from sqlalchemy import Uuid, bindparam, column, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.store.engine import of_tenant
from tenantcron.store.tables import tenant_schedule

# The columns that a manifest decides; ids and times are the database's.
DEFINITION = ("schedule_name", "saga_name", "cron_expr", "timezone", "enabled", "definition")

# More schemas a statement cost more in planning than they save in round trips.
SCHEMAS_A_STATEMENT = 50

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
class ScheduleRow:
    """One schedule of one tenant; the fields are the columns, in their order."""

    id: UUID
    schedule_name: str
    saga_name: str
    cron_expr: str
    timezone: str
    enabled: bool
    manifest_version_id: UUID
    # An object, unless somebody has put something else there by hand.
    definition: JsonValue
    created_at: datetime
    updated_at: datetime


async def read(connection: AsyncConnection, schema: str) -> list[ScheduleRow]:
    """Return the schedules of one tenant by name."""
    statement = select(tenant_schedule).order_by(tenant_schedule.c.schedule_name)
    rows = await of_tenant(connection, schema).execute(statement)
    return [ScheduleRow(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The schedules of many tenants, and the tenants whose schema cannot be read, with why."""

    rows: dict[TenantId, list[ScheduleRow]]
    broken: dict[TenantId, str]


async def read_many(connection: AsyncConnection, schemas: Mapping[TenantId, str]) -> Fleet:
    """Return the schedules of many tenants, some fifty schemas a statement."""
    fleet = Fleet({tenant: [] for tenant in schemas}, {})
    for batch in _batches(list(schemas.items())):
        await _read_batch(connection, batch, fleet)
    return fleet


async def _read_batch(
    connection: AsyncConnection, batch: Sequence[tuple[TenantId, str]], fleet: Fleet
) -> None:
    """Read a batch; if a schema in it is broken, halve it until that one stands alone."""
    try:
        async with connection.begin_nested():
            rows = (await connection.exec_driver_sql(_union(batch))).all()
    except ProgrammingError as error:
        if len(batch) == 1:
            fleet.broken[batch[0][0]] = str(error.orig).partition("\n")[0]
            return
        middle = len(batch) // 2
        await _read_batch(connection, batch[:middle], fleet)
        await _read_batch(connection, batch[middle:], fleet)
        return
    for row in rows:
        tenant, *columns = tuple(row)
        fleet.rows[tenant].append(ScheduleRow(*columns))


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
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in tenant_schedule.columns)
    selects = [
        sql.SQL("SELECT {tenant}, {columns} FROM {table}").format(
            tenant=sql.Literal(str(tenant)),
            columns=columns,
            table=sql.Identifier(schema, tenant_schedule.name),
        )
        for tenant, schema in schemas
    ]
    return sql.SQL(" UNION ALL ").join(selects).as_string()
