"""One heartbeat of a replica, without its thread."""

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.leases import flag_ended, renew, stop_ended


async def keep_up(replica: Replica, executor: Executor) -> None:
    """Renew the leases, and stop cancelled or lost executions, as thread and loop do together."""
    beat = await renew(replica, executor)
    flag_ended(executor, beat)
    stop_ended(executor, replica.counts, beat)
