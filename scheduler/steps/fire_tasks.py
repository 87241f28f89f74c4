"""Fire due tasks: turn them into executions, in batches.

`store/steps/submit.py` has the protocol. A task has no catch-up rules: it starts when it can.

A task is fired shortly before its time: thousands of the same second then only have to be claimed.
"""

from datetime import timedelta
from typing import Final

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.fire import Fired
from tenantcron.store.steps import claiming, fire_tasks, glances

TASKS_A_BATCH = 1000
# Enough for tens of thousands of tasks, and short for a user who wants to reschedule one.
AHEAD: Final = timedelta(seconds=5)


async def fire_due_tasks(replica: Replica, ahead: timedelta = timedelta(0)) -> Fired:
    """Fire one batch of tasks that are due, or will be in that time."""
    at = replica.clock()
    async with replica.database.transaction(by_key=True) as connection:
        found = await fire_tasks.fire_due(
            connection,
            TASKS_A_BATCH,
            ahead=ahead,
            retention=replica.settings.retention,
            at=at,
        )
    number = sum(found.values())
    replica.counts.fired += number
    if any(not replica.capabilities.names(requires) for requires in found):
        await glances.notify_work(replica.database, claiming.FOR_OTHERS)
    return Fired(number, more=number == TASKS_A_BATCH)
