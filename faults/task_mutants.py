"""Builds with a guard of tasks removed."""

from faults.mutant import Change, Mutant

_FIRE_TASKS = "store/steps/fire_tasks.sql"
_SUBMIT = "migrations/control/versions/quotas/submit.sql"
# As before, but in two transactions.
_MARK_FIRST = """    async with replica.database.transaction(by_key=True) as connection:
        marked = await connection.exec_driver_sql(
            "UPDATE tenantcron.task SET fired_at = now() WHERE id IN ("
            "SELECT id FROM tenantcron.task"
            " WHERE fired_at IS NULL AND execute_at <= now() LIMIT 1000"
            " FOR NO KEY UPDATE SKIP LOCKED) RETURNING id::text"
        )
        ids = [row[0] for row in marked]
    async with replica.database.transaction(by_key=True) as connection:
        await connection.exec_driver_sql(
            "UPDATE tenantcron.task SET fired_at = NULL WHERE id = ANY(%(ids)s::uuid[])",
            {"ids": ids},
        )
        found = await fire_tasks.fire_due("""

TASK_MUTANTS = (
    Mutant(
        "task-not-marked",
        "a task is fired without setting `fired_at`",
        (
            Change(
                _FIRE_TASKS,
                "        fired_at = CASE\n"
                "            WHEN %(id)s::uuid IS NULL THEN greatest(t.execute_at, clock.now)"
                " ELSE clock.now\n"
                "        END,\n",
                "",
            ),
        ),
        ("kill", "kill at a point"),
        steady=16,
    ),
    Mutant(
        "task-marked-first",
        "a task is marked as fired in a separate transaction, before the insert",
        (
            Change(
                "scheduler/steps/fire_tasks.py",
                "    async with replica.database.transaction(by_key=True) as connection:\n"
                "        found = await fire_tasks.fire_due(",
                _MARK_FIRST,
            ),
        ),
        ("kill", "kill at a point"),
        steady=16,
    ),
    Mutant(
        "task-key-ignored",
        "the idempotency key of a task is not stored",
        (
            Change(
                _SUBMIT,
                "e.task ->> 'idempotency_key' AS key,",
                "NULL::text AS key,",
            ),
        ),
        ("kill", "network", "connections cut"),
        steady=16,
    ),
)
