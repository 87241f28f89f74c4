"""Invariants of the control tables while no transaction is open.

An invariant is a query for the rows that violate it.
"""

from collections.abc import Mapping

from sqlalchemy import text

from tenantcron.store.connection.engine import Database

# By name.
INVARIANTS: Mapping[str, str] = {
    "one execution per occurrence": """
        SELECT schedule_id, scheduled_for, count(*) FROM tenantcron.execution
        WHERE actor_source <> 'manual'
        GROUP BY schedule_id, scheduled_for HAVING count(*) > 1
    """,
    "no occurrence is covered twice": """
        SELECT a.id, b.id FROM tenantcron.execution AS a JOIN tenantcron.execution AS b
            ON a.schedule_id = b.schedule_id AND a.id <> b.id
            AND b.covers_from IS NOT NULL
            AND a.scheduled_for >= b.covers_from AND a.scheduled_for < b.scheduled_for
        WHERE a.actor_source <> 'manual'
    """,
    "nothing is fired ahead of its cursor": """
        SELECT e.id FROM tenantcron.execution AS e
        JOIN tenantcron.schedule_cursor AS c USING (schedule_id)
        WHERE e.actor_source <> 'manual' AND e.scheduled_for >= c.next_run_at
    """,
    "running and leased are the same": """
        SELECT id, state FROM tenantcron.execution
        WHERE (state = 'RUNNING') <> (lease_token IS NOT NULL AND lease_until IS NOT NULL)
    """,
    "every ended execution has an end time": """
        SELECT id, state FROM tenantcron.execution
        WHERE (state IN ('SUCCEEDED', 'DEAD', 'SKIPPED', 'CANCELLED')) AND finished_at IS NULL
    """,
    "never more running than the cluster limit": """
        SELECT count(*) FROM tenantcron.execution WHERE state = 'RUNNING'
        HAVING count(*) > (SELECT coalesce(operator, declared) FROM tenantcron.limits)
    """,
    "never more running than the tenant limit": """
        SELECT e.tenant_id, count(*) FROM tenantcron.execution AS e
        JOIN tenantcron.tenant AS t ON t.id = e.tenant_id
        WHERE e.state = 'RUNNING'
        GROUP BY e.tenant_id, t.max_concurrent
        HAVING count(*) > coalesce(
            t.max_concurrent,
            (SELECT coalesce(operator_per_tenant, declared_per_tenant) FROM tenantcron.limits)
        )
    """,
    "one execution of a schedule at a time, unless overlap is allowed": """
        SELECT schedule_id FROM tenantcron.execution
        WHERE state = 'RUNNING' AND overlap <> 'allow'
        GROUP BY schedule_id HAVING count(*) > 1
    """,
    "a replica runs a repeated suspect beside no other suspect": """
        SELECT worker_id FROM tenantcron.execution
        WHERE state = 'RUNNING' AND suspicion > 0
        GROUP BY worker_id HAVING count(*) > 1 AND max(suspicion) > 1
    """,
    "every audit record names an actor": """
        SELECT id FROM tenantcron.audit_record
        WHERE changed_by = '' OR actor_type = '' OR correlation_id IS NULL
    """,
    "manifest versions have no gap": """
        SELECT tenant_id FROM tenantcron.manifest_version
        GROUP BY tenant_id HAVING count(*) <> max(version)
    """,
    "a task has exactly one execution if it was fired, and none before": """
        SELECT t.id FROM tenantcron.task AS t
        LEFT JOIN tenantcron.execution AS e ON e.id = t.id
        GROUP BY t.id
        HAVING count(e.id) <> CASE WHEN t.fired_at IS NULL THEN 0 ELSE 1 END
            OR bool_or(e.scheduled_for <> least(t.execute_at, t.fired_at))
    """,
    "the execution of a task has a task": """
        SELECT e.id FROM tenantcron.execution AS e
        WHERE e.schedule_id = e.id AND NOT EXISTS (
            SELECT FROM tenantcron.task AS t WHERE t.id = e.id AND t.tenant_id = e.tenant_id
        )
    """,
    "no tenant is marked as synced beyond its revision": """
        SELECT id FROM tenantcron.tenant WHERE synced_revision > schedule_revision
    """,
}


async def violations(database: Database) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows that violate an invariant, by its name."""
    found = {}
    async with database.transaction() as connection:
        for name, statement in INVARIANTS.items():
            if rows := [tuple(row) for row in await connection.execute(text(statement))]:
                found[name] = rows
    return found
