"""Fire due tasks: turn them into executions, in batches.

`store/steps/submit.py` has the protocol. A task has no catch-up rules: it starts when it can.
"""

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.fire import Fired
from tenantcron.store.steps import claiming, fire_tasks, glances

TASKS_A_BATCH = 1000


async def fire_due_tasks(replica: Replica) -> Fired:
    """Fire one batch of due tasks."""
    at = replica.clock()
    async with replica.database.transaction(by_key=True) as connection:
        found = await fire_tasks.fire_due(
            connection, TASKS_A_BATCH, retention=replica.settings.retention, at=at
        )
    number = sum(found.values())
    replica.counts.fired += number
    if any(not replica.capabilities.names(requires) for requires in found):
        await glances.notify_work(replica.database, claiming.FOR_OTHERS)
    return Fired(number, more=number == TASKS_A_BATCH)
