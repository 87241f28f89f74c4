"""Rows of `tenant_schedule` for the provider, which reads many tenants at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import sql
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonValue
from tenantcron.core.words import shortened
from tenantcron.store.connection.locks import reset_lock_timeout, set_lock_timeout
from tenantcron.store.schema.batches import Batch, read_in_batches
from tenantcron.store.schema.tables import tenant_schedule

# A batch with a locked schema is bisected, so this timeout occurs about six times.
_PATIENCE = "200ms"


class ScheduleRow(NamedTuple):
    """One schedule of one tenant; the fields are columns."""

    id: UUID
    schedule_name: str
    saga_name: str
    cron_expr: str
    timezone: str
    enabled: bool
    definition: JsonValue
    effective_from: datetime


@dataclass(frozen=True, slots=True)
class FleetSchedules:
    """The schedules of many tenants, and why the schemas of other tenants cannot be read."""

    rows: dict[TenantId, list[ScheduleRow]]
    broken: dict[TenantId, str]


async def read_many(connection: AsyncConnection, schemas: Mapping[TenantId, str]) -> FleetSchedules:
    """Return the schedules of many tenants, about fifty schemas per statement."""
    rows: dict[TenantId, list[ScheduleRow]] = {tenant: [] for tenant in schemas}

    async def read(batch: Batch) -> None:
        found = await connection.exec_driver_sql(
            _union(batch), execution_options={"no_parameters": True}
        )
        for row in found:
            rows[row[0]].append(ScheduleRow._make(row[1:]))

    # Do not wait for a tenant whose schema is being dropped.
    await set_lock_timeout(connection, _PATIENCE)
    try:
        broken = await read_in_batches(connection, schemas, read)
    finally:
        # A lost connection needs no reset, and trying would hide the original error.
        if not connection.invalidated:
            await reset_lock_timeout(connection)
    return FleetSchedules(rows, broken | _unusable(rows))


# The limits of the cursor's columns, in characters.
_LONGEST_NAME, _LONGEST_TIMETABLE = 128, 64


def _unusable(rows: Mapping[TenantId, Sequence[ScheduleRow]]) -> dict[TenantId, str]:
    """Return the tenants whose table was altered so that a row does not fit, with the reason."""
    wrong = ((tenant, row) for tenant, some in rows.items() for row in some if not _fits(row))
    return {
        tenant: f"the table tenant_schedule was altered: schedule {shortened(repr(row[1]))} has "
        "values that its columns do not allow"
        for tenant, row in wrong
    }


def _fits(row: tuple[object, ...]) -> bool:
    """Whether the values have the expected types: a table can be altered manually."""
    match row:
        case (UUID(), str(name), str(saga), str(cron), str(zone), bool(), _, datetime() as since):
            names, timetable = max(len(name), len(saga)), max(len(cron), len(zone))
            is_short = names <= _LONGEST_NAME and timetable <= _LONGEST_TIMETABLE
            return is_short and since.tzinfo is not None
        case _:
            return False


# Composed once: composing it for each tenant takes longer than sending it.
_COLUMNS = sql.SQL(", ").join(map(sql.Identifier, ScheduleRow._fields)).as_string()


def _union(schemas: Batch) -> str:
    """Return one statement over several schemas; ids and schemas come from the tenant table."""
    return " UNION ALL ".join(
        f"SELECT {_literal(tenant)}, {_COLUMNS} FROM {_table(schema)}"  # noqa: S608 -- all parts are quoted
        for tenant, schema in schemas
    )


def _literal(tenant: TenantId) -> str:
    return sql.Literal(str(tenant)).as_string()


def _table(schema: str) -> str:
    return sql.Identifier(schema, tenant_schedule.name).as_string()
