"""Leases of one replica: how they are renewed, and how the main loop is notified.

Renewal: one thread of the replica (`lease_thread`) renews all leases. It has its own event loop and
its own database connection, so a handler that blocks the main event loop loses no leases. The
database's clock decides how long a lease lasts.

What is renewed: the leases of all running attempts and of all unwritten results. While the main
loop is blocked, a claim may be committed without its response having been read. So the thread then
also renews leases of this replica that the main loop does not know.

Notification: each successful heartbeat is passed to the main loop with `call_soon_threadsafe`. The
main loop stops attempts that were cancelled or lost. The thread itself sets the flags that handlers
read (`cancelled`, and whether their transactions may commit), so plain handlers and a blocking
handler see them while the loop is blocked.

Unavailable database: no heartbeat succeeds. 0.9 of a lease after the last successful heartbeat was
sent, by its own clock, the replica treats all its leases as lost, because other replicas may soon
start the same executions (`LeaseWatch`). The main loop stops its handlers. If the loop is blocked,
the thread keeps their transactions from committing.

Blocked main loop: after a second the thread logs which saga blocks the loop (`watchdog`), and it
continues to renew for two leases. Then it records the blocking attempt as failed, lets the other
leases expire within a second, and exits the process, so that the supervisor starts a new one. Only
time in which the thread itself could run counts: if the process was stopped or starved, no handler
blocked it.

Limitation: code that holds Python's global interpreter lock (catastrophic backtracking in a regular
expression, some C extensions) also stops this thread. The leases of the replica then expire as if
it had crashed. Run such handlers in isolated processes.

Start and stop: the thread starts with the replica, and the first heartbeat must succeed before
anything is claimed. The thread stops after the last result was written. It is a daemon thread, so
it does not delay the exit of the process. It does not survive a fork; process isolation forks from
a helper process that never had the thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from tenantcron.scheduler.metrics.counts import Counts
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Stop
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.running_attempt import CallLater, Timer
from tenantcron.store.connection.engine import Pins
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport
from tenantcron.store.steps import claiming, finishing
from tenantcron.store.steps.claiming import Claimed
from tenantcron.store.steps.finishing import Held

log = structlog.get_logger(__name__)

# The fraction of a lease after which it is treated as lost. In the rest of it handlers stop, before
# another replica may start the same execution.
TRUSTED: Final = 0.9


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A successful heartbeat: the attempts that it was for, and the leases that are still held."""

    running: tuple[Claimed, ...]
    held: tuple[Held, ...]

    @property
    def cancelled(self) -> tuple[Held, ...]:
        """The attempts to cancel, with the reason."""
        return tuple(held for held in self.held if held.cancel_reason is not None)

    @property
    def lost(self) -> tuple[Claimed, ...]:
        """The attempts that lost their lease: another replica took over, or they have ended."""
        # By lease, because a lost and a new claim of the same execution may both run here.
        kept = {(held.id, held.lease_token) for held in self.held}
        return tuple(claimed for claimed in self.running if claimed.lease not in kept)


async def renew(
    replica: Replica,
    executor: Executor,
    unwritten: Sequence[Claimed] = (),
    *,
    draining: bool = False,
    is_blocked: bool = False,
) -> Heartbeat:
    """Renew the leases of all attempts, and report that this replica is alive."""
    running = executor.running
    leases: list[Claimed | claiming.Unstarted] = [*running, *unwritten]
    # Without leases only the report is written, which depends on no session setting.
    pins = Pins.ALL if leases or is_blocked else Pins.FEW
    async with replica.database.transaction(by_key=True, pins=pins) as connection:
        at = replica.clock()
        if is_blocked:
            known = {lease.lease_token for lease in leases}
            leases += await claiming.unstarted(connection, replica.worker_id, known)
        held: list[Held] = []
        if leases:
            lease = replica.settings.lease
            held = await finishing.heartbeat(connection, leases, lease=lease, at=at)
        report = WorkerReport(
            id=replica.worker_id,
            service=replica.settings.service,
            running=len(running),
            abandoned=executor.abandoned,
            draining=draining,
            capabilities=replica.capabilities.declared,
        )
        await workers.report(connection, report, at)
    return Heartbeat(running, tuple(held))


def stop_ended(executor: Executor, counts: Counts, beat: Heartbeat) -> None:
    """Stop attempts that a heartbeat found cancelled or lost. Runs in the main loop."""
    for held in beat.cancelled:
        reason, token = held.cancel_reason or "", held.lease_token
        executor.cancel(held.id, Stop.CANCELLED, reason, lease_token=token)
    still_running = {claimed.lease for claimed in executor.running}
    for claimed in beat.lost:
        # An attempt that ended during the heartbeat has no lease and needs none.
        if claimed.lease in still_running:
            _stop_lost(executor, claimed)
            counts.leases_lost += 1


def _stop_lost(executor: Executor, claimed: Claimed) -> None:
    """Stop an attempt that another replica may have taken over; its result would be rejected."""
    log.warning(
        "lease_lost",
        execution=str(claimed.id),
        schedule=claimed.schedule_name,
        tenant=claimed.tenant_id,
    )
    executor.cancel(claimed.id, Stop.LOST, lease_token=claimed.lease_token)


def flag_ended(executor: Executor, beat: Heartbeat) -> None:
    """Set the flags of attempts that a heartbeat found cancelled or lost. Runs in the thread."""
    for held in beat.cancelled:
        executor.flag((held.id, held.lease_token))
    for claimed in beat.lost:
        executor.flag(claimed.lease, closed=True)


class LeaseWatch:
    """Stops all attempts when no heartbeat has succeeded for nearly a lease.

    `silence` returns the seconds since the last successful heartbeat was sent. Heartbeats continue
    while the loop is blocked, so a late timer checks `silence` again before it stops anything.
    """

    def __init__(
        self,
        executor: Executor,
        lease: timedelta,
        silence: Callable[[], float],
        call_later: CallLater,
        counts: Counts,
    ) -> None:
        self._executor, self._counts = executor, counts
        self._trusted = lease.total_seconds() * TRUSTED
        self._silence = silence
        self._call_later = call_later
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start watching."""
        self._check()

    def end(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        left = self._trusted - self._silence()
        if left <= 0:
            self._cut_off()
            # Continue to watch, for attempts that are claimed later.
            left = self._trusted
        self._timer = self._call_later(left, self._check)

    def _cut_off(self) -> None:
        running = self._executor.running
        if running:
            log.error("cut_off", running=len(running))
        for claimed in running:
            self._executor.cancel(claimed.id, Stop.LOST, lease_token=claimed.lease_token)
        self._counts.leases_lost += len(running)
