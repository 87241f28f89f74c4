"""What pending executions require, and what replicas have named: the tables behind capabilities.

A requirement is a column of `execution`, written when the row is made and corrected when the
schedule gets another runner (`follow`). A null is a row that the release before has made; the next
claim decides it (`decide`). A row of `capability` has when a replica last named a requirement: a
catch-all leaves it alone while that replica restarts. The rows of `worker` show which are alive.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.schedules.reasons import ReasonCode
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.locks import set_lock_timeout
from tenantcron.store.steps.claiming import MOST_VERDICTS, Skipped, skipped_rows
from tenantcron.store.steps.statements import statement

# For the lock that dropping an index needs.
_PATIENCE: Final = "2s"
# For so long a catch-all leaves alone what another replica has named.
NAMED_FOR: Final = timedelta(hours=1)
# An occurrence can be fired up to a minute late, and must not end for that.
GRACE: Final = timedelta(minutes=1)

_NAME = """
INSERT INTO tenantcron.capability AS c (name, named_at)
SELECT name, coalesce(%(at)s::timestamptz, statement_timestamp())
FROM unnest(%(names)s::text[]) AS name
-- In one order, so that two replicas never wait for each other in a circle.
ORDER BY name
ON CONFLICT (name) DO UPDATE SET named_at = excluded.named_at
WHERE c.named_at < excluded.named_at - interval '1 minute'
"""
_FORGET = """
DELETE FROM tenantcron.capability WHERE named_at < statement_timestamp() - interval '30 days'
"""
# Only what has not begun: an execution that was tried stays with the runner that tried it.
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
# On the table that the API may read, too.
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
    """What runs the executions of a schedule from now on."""

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
    """Enabled schedules of one saga; the kind of their target is None if they have none."""

    saga: str
    kind: str | None
    number: int


async def name(connection: AsyncConnection, names: Collection[str], at: datetime | None) -> None:
    """Record that a replica has these capabilities."""
    await connection.exec_driver_sql(_NAME, {"names": sorted(names), "at": at})


async def forget_old(connection: AsyncConnection) -> None:
    """Forget capabilities that no replica has had for a month."""
    await connection.exec_driver_sql(_FORGET)


async def unnamed(connection: AsyncConnection, at: datetime | None) -> list[str]:
    """Return what the pending executions require and no replica has named lately."""
    rows = await connection.exec_driver_sql(
        statement("pending_requirements"), _parameters(unnamed=True, at=at)
    )
    return [row[0] for row in rows]


async def glance_at_unnamed(database: Database, at: datetime | None) -> list[str]:
    """Return the same in one round trip, see `glances`."""
    rows = await database.glance(
        statement("pending_requirements"), _parameters(unnamed=True, at=at)
    )
    return [str(row[0]) for row in rows]


async def glance_at_pending(database: Database) -> list[str]:
    """Return what the pending executions require in one round trip, see `glances`."""
    rows = await database.glance(
        statement("pending_requirements"), _parameters(unnamed=False, at=None)
    )
    return [str(row[0]) for row in rows]


def _parameters(*, unnamed: bool, at: datetime | None) -> dict[str, object]:
    return {"unnamed": unnamed, "at": at, "kept": NAMED_FOR}


async def decide(connection: AsyncConnection) -> int:
    """Give executions a requirement that have none; return how many there were."""
    return (await connection.exec_driver_sql(statement("decide"), {"most": 5000})).rowcount


async def follow(connection: AsyncConnection, runners: Sequence[Runner]) -> int:
    """Let what has not begun run as its schedule says now, where that needs another runner."""
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
    """End what no live replica can run and what may not wait any longer."""
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
    """Return what the enabled schedules run, by saga. It reads all of them."""
    rows = await connection.exec_driver_sql(_OF_SCHEDULES)
    return [SagaSchedules(*columns) for columns in map(tuple, rows)]


async def drop_waiting_index(connection: AsyncConnection) -> bool:
    """Drop the index of the release before, unless a replica of it was seen in the last hour.

    A lock that cannot be had soon is an error of the database, and nothing is dropped.
    """
    await set_lock_timeout(connection, _PATIENCE)
    found = await connection.exec_driver_sql("SELECT tenantcron.drop_waiting_index()")
    return bool(found.scalar_one())
