"""How many schedules there are.

The cursors of a tenant can be behind its schedules, most of all before the first `tenantcron run`.
The schedules of such a tenant are counted in its newest manifest version instead.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ARRAY, ColumnElement, Text, and_, bindparam, case, cast, func, or_, select
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import MANIFESTS, TenantId
from tenantcron.store.rows.schedule_cursors import IS_PAUSED
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.store.schema.tables import manifest_version, schedule_cursor, tenant

_cursor = schedule_cursor.c
_IS_BEHIND = and_(
    tenant.c.schedule_revision != tenant.c.synced_revision,
    tenant.c.status != TenantStatus.DEPROVISIONED,
)
_DISABLED = "$.schedules[*] ? (@.enabled == false)"


def _declared(schedules: ColumnElement[object]) -> ColumnElement[int]:
    """Count schedules in the newest version of the tenant of the outer query."""
    newest = (
        select(func.jsonb_array_length(schedules))
        .where(manifest_version.c.tenant_id == tenant.c.id)
        .order_by(manifest_version.c.version.desc())
        .limit(1)
        .scalar_subquery()
    )
    return func.coalesce(newest, 0)


_DECLARED = _declared(manifest_version.c.document["schedules"])
_DECLARED_DISABLED = _declared(
    func.jsonb_path_query_array(manifest_version.c.document, cast(_DISABLED, JSONPATH))
)


@dataclass(frozen=True, slots=True)
class Totals:
    """How many schedules there are, and how many of them do not fire."""

    schedules: int
    disabled: int
    paused: int
    quarantined: int
    # The tenants whose changes no scheduler has picked up yet.
    tenants_behind: int


async def totals(connection: AsyncConnection, at: datetime | None) -> Totals:
    """Count the schedules that the caller sees, each table in one pass."""
    behind = select(tenant.c.id).where(_IS_BEHIND)
    is_current = or_(_cursor.provider != MANIFESTS, _cursor.tenant_id.not_in(behind))
    cursors = select(
        func.count().filter(is_current),
        func.count().filter(is_current, ~_cursor.enabled),
        func.count().filter(IS_PAUSED),
        func.count().filter(_cursor.fault.is_not(None)),
    ).select_from(schedule_cursor)
    declared = select(
        func.count(),
        func.coalesce(func.sum(_DECLARED), 0),
        func.coalesce(func.sum(_DECLARED_DISABLED), 0),
    ).where(_IS_BEHIND)
    schedules, disabled, paused, quarantined = (await connection.execute(cursors, {"at": at})).one()
    number, more, more_disabled = (await connection.execute(declared)).one()
    return Totals(schedules + int(more), disabled + int(more_disabled), paused, quarantined, number)


async def by_tenant(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, int]:
    """Count the schedules of tenants."""
    cursors = (
        select(func.count())
        .where(_cursor.tenant_id == tenant.c.id, or_(~_IS_BEHIND, _cursor.provider != MANIFESTS))
        .scalar_subquery()
    )
    statement = select(tenant.c.id, cursors + case((_IS_BEHIND, _DECLARED), else_=0)).where(
        tenant.c.id == func.any(bindparam("tenant_ids", type_=ARRAY(Text)))
    )
    rows = await connection.execute(statement, {"tenant_ids": list(tenant_ids)})
    return {TenantId(tenant_id): number for tenant_id, number in rows}
