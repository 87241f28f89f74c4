"""Rows of `execution` for an audit: those of occurrences, within a window per schedule.

A window begins where the audit of the schedule begins, so earlier history is never read. That is
why each window is looked up separately in `execution_history_idx`, instead of with one scan over
all tenants of a batch.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, DateTime, Text, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.model import MANUAL
from tenantcron.core.names import TenantId


@dataclass(frozen=True, slots=True)
class Recorded:
    """The columns of an occurrence's execution that an audit needs."""

    tenant_id: TenantId
    schedule_name: str
    schedule_id: UUID
    id: UUID
    scheduled_for: datetime
    covers_from: datetime | None


@dataclass(frozen=True, slots=True)
class Window:
    """The audited occurrences of one schedule: after a time, up to another."""

    tenant_id: TenantId
    schedule_name: str
    after: datetime
    until: datetime


_RECORDED = text(
    """
    WITH judged AS (
        SELECT * FROM unnest(:tenant_ids, :schedule_names, :afters, :untils)
            AS t (tenant_id, schedule_name, after, until)
    )
    SELECT tenant_id, schedule_name, schedule_id, id, scheduled_for, covers_from FROM (
        -- History is long: each window is one index lookup in each month that it overlaps. OFFSET
        -- prevents the planner from turning that into a scan of the months.
        SELECT past.* FROM judged CROSS JOIN LATERAL (
            SELECT e.tenant_id, e.schedule_name, e.schedule_id, e.id, e.scheduled_for,
                e.covers_from, e.actor_source
            FROM tenantcron.execution AS e
            WHERE e.state IN ('SUCCEEDED', 'DEAD', 'SKIPPED', 'MISSED', 'CANCELLED')
                AND e.tenant_id = judged.tenant_id AND e.schedule_name = judged.schedule_name
                AND e.scheduled_for > judged.after AND e.scheduled_for <= judged.until
            OFFSET 0
        ) AS past
        UNION ALL
        -- The live partition is small and has no such index: one join reads it for all windows.
        SELECT e.tenant_id, e.schedule_name, e.schedule_id, e.id, e.scheduled_for, e.covers_from,
            e.actor_source
        FROM judged JOIN tenantcron.execution AS e
            ON e.tenant_id = judged.tenant_id AND e.schedule_name = judged.schedule_name
        WHERE e.state IN ('PENDING', 'RUNNING', 'RETRYING', 'FAILED')
            AND e.scheduled_for > judged.after AND e.scheduled_for <= judged.until
    ) AS recorded
    WHERE actor_source <> :manual
    ORDER BY tenant_id, schedule_name, scheduled_for
    """
).bindparams(
    bindparam("tenant_ids", type_=ARRAY(Text)),
    bindparam("schedule_names", type_=ARRAY(Text)),
    bindparam("afters", type_=ARRAY(DateTime(timezone=True))),
    bindparam("untils", type_=ARRAY(DateTime(timezone=True))),
    manual=MANUAL,
)
_ROWS_AT_ONCE = 1_000


async def recorded(
    connection: AsyncConnection, windows: Sequence[Window]
) -> AsyncIterator[Recorded]:
    """Yield the rows of windows by tenant, schedule and time, without loading them all."""
    parameters = {
        "tenant_ids": [window.tenant_id for window in windows],
        "schedule_names": [window.schedule_name for window in windows],
        "afters": [window.after for window in windows],
        "untils": [window.until for window in windows],
    }
    async with connection.stream(_RECORDED, parameters) as rows:
        async for some in rows.partitions(_ROWS_AT_ONCE):
            for row in some:
                yield Recorded(*row)
