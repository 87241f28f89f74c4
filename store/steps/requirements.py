"""Requirements of pending executions, and the requirements that replicas have declared by name.

A requirement is a column of `execution`, set when the row is inserted and corrected when the
schedule gets another runner (`follow`). It is null in a row of the previous release; the next claim
decides it (`decide`). A row of `capability` has the time when a replica last declared a requirement
by name: a catch-all does not claim it while that replica restarts. The rows of `worker` show which
replicas are alive.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.locks import set_lock_timeout
from tenantcron.store.steps.claiming import MOST_VERDICTS, Skipped, skipped_rows
from tenantcron.store.steps.statements import statement

# The timeout of the lock for dropping an index.
_PATIENCE: Final = "2s"
# How long a catch-all does not claim what another replica has declared by name.
NAMED_FOR: Final = timedelta(hours=1)
# An occurrence can be fired up to a minute late, which must not end it.
GRACE: Final = timedelta(minutes=1)

_NAME = """
INSERT INTO tenantcron.capability AS c (name, named_at)
SELECT name, coalesce(%(at)s::timestamptz, statement_timestamp())
FROM unnest(%(names)s::text[]) AS name
-- Ordered, to prevent deadlocks between replicas.
ORDER BY name
ON CONFLICT (name) DO UPDATE SET named_at = excluded.named_at
WHERE c.named_at < excluded.named_at - interval '1 minute'
"""
_FORGET = """
DELETE FROM tenantcron.capability WHERE named_at < statement_timestamp() - interval '30 days'
"""
# Only executions without an attempt: others stay with the runner of their first attempt.
_FOLLOW = """
UPDATE tenantcron.execution AS e
SET requires = g.requires, saga_name = g.saga_name, definition_id = g.definition_id
FROM unnest(
    %(schedule_ids)s::uuid[], %(saga_names)s::text[], %(definition_ids)s::uuid[],
    %(requires)s::text[]
) AS g (schedule_id, saga_name, definition_id, requires)
WHERE
    e.tenant_id = ANY(%(tenant_ids)s::text[]) AND e.state IN ('PENDING', 'RETRYING', 'FAILED')
    AND e.schedule_id = g.schedule_id AND e.state = 'PENDING' AND e.attempt = 0
    AND e.requires IS DISTINCT FROM g.requires
"""
# On the parent table, which the API may read.
_PENDING = """
SELECT saga_name, requires, count(*)::int AS number, min(not_before) AS oldest
FROM tenantcron.execution
WHERE state IN ('PENDING', 'RETRYING', 'FAILED') AND requires IS NOT NULL
GROUP BY saga_name, requires
ORDER BY number DESC, saga_name, requires
"""
_OF_SCHEDULES = """
SELECT c.saga_name, d.kind, count(*)::int AS number
FROM tenantcron.schedule_cursor AS c
LEFT JOIN (
    SELECT
        id, (
            SELECT kind
            FROM jsonb_object_keys(
                CASE jsonb_typeof(definition -> 'target')
                    WHEN 'object' THEN definition -> 'target' ELSE '{}'
                END
            ) AS kind
            LIMIT 1
        ) AS kind
    FROM tenantcron.schedule_definition
) AS d ON d.id = c.definition_id
WHERE c.enabled
GROUP BY c.saga_name, d.kind
ORDER BY c.saga_name, d.kind
"""


@dataclass(frozen=True, slots=True)
class Runner:
    """The runner of a schedule's executions from now on."""

    tenant_id: TenantId
    schedule_id: UUID
    saga_name: str
    definition_id: UUID
    requires: str


@dataclass(frozen=True, slots=True)
class Pending:
    """Pending executions of one saga that have the same requirement."""

    saga: str
    requires: str
    number: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class SagaSchedules:
    """The enabled schedules of one saga with the same kind of target, None without a target."""

    saga: str
    kind: str | None
    number: int


async def name(connection: AsyncConnection, names: Collection[str], at: datetime | None) -> None:
    """Record that a replica declares these capabilities."""
    await connection.exec_driver_sql(_NAME, {"names": sorted(names), "at": at})


async def forget_old(connection: AsyncConnection) -> None:
    """Delete capabilities that no replica has declared for a month."""
    await connection.exec_driver_sql(_FORGET)


async def unnamed(connection: AsyncConnection, at: datetime | None) -> list[str]:
    """Return the requirements of pending executions that no replica has recently declared."""
    rows = await connection.exec_driver_sql(
        statement("pending_requirements"), _parameters(unnamed=True, at=at)
    )
    return [row[0] for row in rows]


async def glance_at_unnamed(database: Database, at: datetime | None) -> list[str]:
    """Return the same with one round trip, see `glances`."""
    rows = await database.glance(
        statement("pending_requirements"), _parameters(unnamed=True, at=at)
    )
    return [str(row[0]) for row in rows]


async def glance_at_pending(database: Database) -> list[str]:
    """Return the requirements of pending executions with one round trip, see `glances`."""
    rows = await database.glance(
        statement("pending_requirements"), _parameters(unnamed=False, at=None)
    )
    return [str(row[0]) for row in rows]


def _parameters(*, unnamed: bool, at: datetime | None) -> dict[str, object]:
    return {"unnamed": unnamed, "at": at, "kept": NAMED_FOR}


async def decide(connection: AsyncConnection) -> int:
    """Set the requirement of executions that have none; return how many."""
    return (await connection.exec_driver_sql(statement("fill_requires"), {"most": 5000})).rowcount


async def follow(connection: AsyncConnection, runners: Sequence[Runner]) -> int:
    """Move executions that have not begun to the current runner of their schedule."""
    if not runners:
        return 0
    parameters = {
        "tenant_ids": sorted({runner.tenant_id for runner in runners}),
        "schedule_ids": [runner.schedule_id for runner in runners],
        "saga_names": [runner.saga_name for runner in runners],
        "definition_ids": [runner.definition_id for runner in runners],
        "requires": [runner.requires for runner in runners],
    }
    return (await connection.exec_driver_sql(_FOLLOW, parameters)).rowcount


async def end_without_runner(
    connection: AsyncConnection, requires: Collection[str], at: datetime | None
) -> tuple[Skipped, ...]:
    """End executions that no live replica can run and that may not wait any longer."""
    parameters = {
        "requires": list(requires),
        "tenant_inactive": ReasonCode.TENANT_INACTIVE.value,
        "removed": ReasonCode.REMOVED.value,
        "disabled": ReasonCode.DISABLED.value,
        "replaced": ReasonCode.REPLACED.value,
        "no_runner": ReasonCode.NO_RUNNER.value,
        "grace": GRACE,
        "most": MOST_VERDICTS,
        "at": at,
    }
    ended = await connection.exec_driver_sql(statement("end_without_runner"), parameters)
    return skipped_rows(ended)


async def pending(connection: AsyncConnection) -> list[Pending]:
    """Count the pending executions by saga and requirement, the most first."""
    rows = await connection.exec_driver_sql(_PENDING)
    return [Pending(*columns) for columns in map(tuple, rows)]


async def of_schedules(connection: AsyncConnection) -> list[SagaSchedules]:
    """Count the enabled schedules by saga and kind of target. It reads all cursors."""
    rows = await connection.exec_driver_sql(_OF_SCHEDULES)
    return [SagaSchedules(*columns) for columns in map(tuple, rows)]


async def drop_waiting_index(connection: AsyncConnection) -> bool:
    """Drop the index of the previous release, unless one of its replicas ran in the last hour.

    If the lock is not available soon, the database raises an error, and nothing is dropped.
    """
    await set_lock_timeout(connection, _PATIENCE)
    found = await connection.exec_driver_sql("SELECT tenantcron.drop_waiting_index()")
    return bool(found.scalar_one())
