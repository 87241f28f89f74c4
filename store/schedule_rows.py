"""Rows of `tenant_schedule` as the provider reads them: whole, and of many tenants at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import sql
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonValue
from tenantcron.store.batches import Batch, read_in_batches
from tenantcron.store.tables import tenant_schedule


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
    definition: JsonValue
    created_at: datetime
    updated_at: datetime
    effective_from: datetime


@dataclass(frozen=True, slots=True)
class Fleet:
    """The schedules of many tenants, and the tenants whose schema cannot be read, with why."""

    rows: dict[TenantId, list[ScheduleRow]]
    broken: dict[TenantId, str]


async def read_many(connection: AsyncConnection, schemas: Mapping[TenantId, str]) -> Fleet:
    """Return the schedules of many tenants, some fifty schemas a statement."""
    rows: dict[TenantId, list[ScheduleRow]] = {tenant: [] for tenant in schemas}

    async def read(batch: Batch) -> None:
        found = await connection.exec_driver_sql(
            _union(batch), execution_options={"no_parameters": True}
        )
        for tenant, *columns in map(tuple, found):
            rows[tenant].append(ScheduleRow(*columns))

    return Fleet(rows, await read_in_batches(connection, schemas, read))


def _union(schemas: Batch) -> str:
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
