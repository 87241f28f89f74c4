"""Schedules whose newest executions were all skipped."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.schedules.execution_reasons import ReasonCode

# Both steps use an index and read a bounded number of rows: the newest executions of the cluster,
# then the newest ones of each schedule that was skipped among them.
_ALWAYS_SKIPPED = """
WITH newest AS MATERIALIZED (
    SELECT tenant_id, schedule_name, state, reason_code
    FROM tenantcron.execution
    WHERE
        state IN ('SUCCEEDED', 'DEAD', 'SKIPPED', 'MISSED', 'CANCELLED')
        AND scheduled_for >= %(since)s
    ORDER BY scheduled_for DESC, id DESC
    LIMIT 20000
),
candidate AS MATERIALIZED (
    SELECT DISTINCT tenant_id, schedule_name
    FROM newest
    WHERE state = 'SKIPPED' AND reason_code = ANY(%(reasons)s)
    LIMIT 1000
)
SELECT candidate.tenant_id, candidate.schedule_name, summary.reason_code
FROM candidate
CROSS JOIN LATERAL (
    SELECT
        bool_and(last.state = 'SKIPPED' AND last.reason_code = ANY(%(reasons)s)) AS always,
        count(*) AS number,
        (array_agg(last.reason_code ORDER BY last.scheduled_for DESC))[1] AS reason_code
    FROM (
        SELECT e.state, e.reason_code, e.scheduled_for
        FROM tenantcron.execution AS e
        WHERE
            e.tenant_id = candidate.tenant_id AND e.schedule_name = candidate.schedule_name
            AND e.state IN ('SUCCEEDED', 'DEAD', 'SKIPPED', 'MISSED', 'CANCELLED')
        ORDER BY e.scheduled_for DESC
        LIMIT %(last)s
    ) AS last
) AS summary
WHERE summary.always AND summary.number >= %(last)s
ORDER BY candidate.tenant_id, candidate.schedule_name
"""


@dataclass(frozen=True, slots=True)
class AlwaysSkipped:
    """A schedule whose last executions were all skipped, with the newest reason."""

    tenant_id: TenantId
    schedule_name: str
    reason_code: str


async def always_skipped(
    connection: AsyncConnection, reasons: Sequence[ReasonCode], *, since: datetime, last: int
) -> list[AlwaysSkipped]:
    """Return schedules whose `last` newest executions were skipped, one of them since a time."""
    parameters = {"reasons": [code.value for code in reasons], "since": since, "last": last}
    rows = await connection.exec_driver_sql(_ALWAYS_SKIPPED, parameters)
    return [
        AlwaysSkipped(TenantId(row.tenant_id), row.schedule_name, row.reason_code) for row in rows
    ]
