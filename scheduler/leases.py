"""Leases of one replica: kept up while handlers run; what was taken away is stopped."""

import structlog

from tenantcron.scheduler.attempts import Stop
from tenantcron.scheduler.execute import Executor
from tenantcron.scheduler.replica import Replica
from tenantcron.store import finishing, workers
from tenantcron.store.claiming import Claimed
from tenantcron.store.finishing import Held
from tenantcron.store.workers import Report

log = structlog.get_logger(__name__)


async def keep_up(replica: Replica, executor: Executor, *, draining: bool = False) -> None:
    """Prolong the leases of all that runs here, and say that this replica is there."""
    running = executor.running
    async with replica.database.transaction(by_key=True) as connection:
        at = replica.clock()
        held: list[Held] = []
        if running:
            lease = replica.settings.lease
            held = await finishing.heartbeat(connection, running, lease=lease, at=at)
        said = Report(
            id=replica.worker_id,
            service=replica.settings.service,
            running=len(running),
            abandoned=executor.abandoned,
            draining=draining,
        )
        await workers.report(connection, said, at)
    _stop_cancelled(executor, held)
    _stop_lost(executor, running, held)


def _stop_cancelled(executor: Executor, held: list[Held]) -> None:
    for one in held:
        if one.cancel_reason is not None:
            token = one.lease_token
            executor.cancel(one.id, Stop.CANCELLED, one.cancel_reason, lease_token=token)


def _stop_lost(executor: Executor, running: tuple[Claimed, ...], held: list[Held]) -> None:
    """What another replica has taken over must not go on here; its result would be refused."""
    # By the lease: the same execution may run here twice, by a lost claim and by a new one.
    kept = {(one.id, one.lease_token) for one in held}
    still = {one.lease for one in executor.running}
    for claimed in running:
        # One that ended while the heartbeat was under way has no lease any more, and needs none.
        if claimed.lease not in kept and claimed.lease in still:
            log.warning(
                "lease_lost",
                execution=str(claimed.id),
                schedule=claimed.schedule_name,
                tenant=claimed.tenant_id,
            )
            executor.cancel(claimed.id, Stop.LOST, lease_token=claimed.lease_token)
