"""Audit records, and how the database learns who acts.

The records are written by the database itself: a trigger on each audited table inserts one per
changed row, in the same transaction, with before and after. So no code path can forget it, and a
change by hand is on record, too. Who acts is told once per transaction by `act`; without that a
trigger names the database user, with the source `sql`. The setting ends with the transaction, so it
cannot leak to the next user of a pooled connection.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from psycopg import sql
from sqlalchemy import ARRAY, Row, Select, Text, bindparam, func, insert, null, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.store.engine import of_tenant
from tenantcron.store.tables import audit_record, control_audit_record

SCHEDULE = "schedule"
TENANT = "tenant"
EXECUTION = "execution"
PAUSE = "pause"
LIMITS = "limits"


@dataclass(frozen=True, slots=True)
class Touch:
    """Who last changed an entity, and when."""

    by: str
    source: str
    at: datetime
    operation: str


async def act(connection: AsyncConnection, who: Attribution) -> None:
    """Tell the database who acts until the end of this transaction."""
    settings = who.settings()
    await connection.execute(_local(tuple(settings)), settings)


@cache
def _local(names: tuple[str, ...]) -> Select[tuple[str, ...]]:
    return select(*(func.set_config(name, bindparam(name), True) for name in names))


async def record(  # noqa: PLR0913 -- the columns of a record
    connection: AsyncConnection,
    who: Attribution,
    *,
    entity: tuple[str, str],
    operation: str,
    before: JsonObject | None = None,
    after: JsonObject | None = None,
) -> None:
    """Put on record what an operator did where no trigger does: to an execution, or why.

    Executions move far too often for a trigger. It belongs into the transaction of the change.
    """
    entity_type, entity_id = entity
    values = {
        "entity_type": entity_type,
        "entity_id": entity_id,
        "operation": operation,
        # Nothing is a null of SQL here, never one of JSON.
        "before": null() if before is None else before,
        "after": null() if after is None else after,
        **who.columns(),
    }
    await connection.execute(insert(control_audit_record).values(values))


_RETURNS = (
    select(control_audit_record.c.entity_id, func.max(control_audit_record.c.changed_at))
    .where(
        control_audit_record.c.entity_type == TENANT,
        control_audit_record.c.entity_id == func.any(bindparam("tenant_ids", type_=ARRAY(Text))),
        control_audit_record.c.before["status"].astext == "deprovisioned",
        control_audit_record.c.after["status"].astext == "active",
    )
    .group_by(control_audit_record.c.entity_id)
)


async def last_returns(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, datetime]:
    """Return when tenants came back that had been deprovisioned."""
    rows = await connection.execute(_RETURNS, {"tenant_ids": list(tenant_ids)})
    return {TenantId(tenant): at for tenant, at in rows}


# The columns that decide when a schedule fires, before and after.
_TIMETABLE_CHANGED = """
SELECT {tenant}, entity_id, max(changed_at)
FROM {table}
WHERE
    entity_type = 'schedule' AND operation = 'update' AND changed_at >= :since
    AND (before ->> 'cron_expr', before ->> 'timezone', before ->> 'enabled')
        IS DISTINCT FROM (after ->> 'cron_expr', after ->> 'timezone', after ->> 'enabled')
GROUP BY entity_id
"""


async def timetable_changes(
    connection: AsyncConnection, schemas: Mapping[TenantId, str], since: datetime
) -> dict[tuple[TenantId, str], datetime]:
    """Return when timetables were last changed since then, by an apply or by hand."""
    if not schemas:
        return {}
    selects = [
        sql.SQL(_TIMETABLE_CHANGED).format(
            tenant=sql.Literal(str(tenant)), table=sql.Identifier(schema, audit_record.name)
        )
        for tenant, schema in schemas.items()
    ]
    statement = text(sql.SQL(" UNION ALL ").join(selects).as_string())
    try:
        async with connection.begin_nested():
            rows = (await connection.execute(statement, {"since": since})).all()
    except ProgrammingError:  # a schema without its audit tells nothing
        return {}
    return {(TenantId(tenant), schedule): at for tenant, schedule, at in rows}


async def last_touches(
    connection: AsyncConnection, schema: str, schedules: Collection[str]
) -> dict[str, Touch]:
    """Return who changed each of the schedules last."""
    record = audit_record.c
    newest = (
        select(func.max(record.id))
        .where(record.entity_type == SCHEDULE, record.entity_id == func.any(list(schedules)))
        .group_by(record.entity_id)
    )
    statement = select(audit_record).where(record.id.in_(newest))
    rows = await of_tenant(connection, schema).execute(statement)
    return {row.entity_id: _touch(row) for row in rows}


def _touch(row: Row[tuple[object, ...]]) -> Touch:
    return Touch(row.changed_by, row.actor_source, row.changed_at, row.operation)
