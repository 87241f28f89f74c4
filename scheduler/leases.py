"""Leases of one replica: kept up while handlers run; what was taken away is stopped.

Whoever cannot reach the database cannot be told that a lease is gone. So a replica that has not
kept its leases up for nearly as long as they last takes them for lost by itself, by the clock of
its own process: by then others may start the same work.
"""

from datetime import timedelta
from typing import Final

import structlog

from tenantcron.scheduler.attempts import Stop
from tenantcron.scheduler.counts import Counts
from tenantcron.scheduler.execute import CallLater, Executor, Timer
from tenantcron.scheduler.replica import Replica
from tenantcron.store import finishing, workers
from tenantcron.store.claiming import Claimed
from tenantcron.store.finishing import Held
from tenantcron.store.workers import Report

log = structlog.get_logger(__name__)

# Of the lease; the rest is for handlers to stop in, before anybody else may start their work.
_TRUSTED: Final = 0.9


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
    replica.counts.leases_lost += _stop_lost(executor, running, held)


def _stop_cancelled(executor: Executor, held: list[Held]) -> None:
    for one in held:
        if one.cancel_reason is not None:
            token = one.lease_token
            executor.cancel(one.id, Stop.CANCELLED, one.cancel_reason, lease_token=token)


def _stop_lost(executor: Executor, running: tuple[Claimed, ...], held: list[Held]) -> int:
    """What another replica has taken over must not go on here; its result would be refused."""
    lost = 0
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
            lost += 1
    return lost


class Watch:
    """Goes off when no heartbeat has come through for nearly a lease, and stops what runs here.

    One timer for all: what was claimed after the last heartbeat has a third of a lease more, and
    is stopped with the rest.
    """

    def __init__(
        self,
        executor: Executor,
        lease: timedelta,
        call_later: CallLater,
        counts: Counts | None = None,
    ) -> None:
        self._executor = executor
        self._counts = counts or Counts()
        self._seconds = lease.total_seconds() * _TRUSTED
        self._call_later = call_later
        self._timer: Timer | None = None

    def kept(self, ago: float = 0.0) -> None:
        """Take note of a heartbeat that was sent so many seconds ago and came through."""
        self.end()
        self._timer = self._call_later(max(self._seconds - ago, 0.0), self._cut_off)

    def end(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _cut_off(self) -> None:
        running = self._executor.running
        if running:
            log.error("cut_off", running=len(running))
        for claimed in running:
            self._executor.cancel(claimed.id, Stop.LOST, lease_token=claimed.lease_token)
        self._counts.leases_lost += len(running)
        # Whatever is claimed from now on is watched, too.
        self.kept()
