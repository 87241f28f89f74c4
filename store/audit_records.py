"""Audit records, and how the database learns who acts.

The records are written by the database itself: a trigger on each audited table inserts one per
changed row, in the same transaction, with before and after. So no code path can forget it, and a
change by hand is on record, too. Who acts is told once per transaction by `act`; without that a
trigger names the database user, with the source `sql`. The setting ends with the transaction, so it
cannot leak to the next user of a pooled connection.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import Row, Select, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.store.engine import of_tenant
from tenantcron.store.tables import audit_record

SCHEDULE = "schedule"


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
