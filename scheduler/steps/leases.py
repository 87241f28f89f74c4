"""Leases of one replica: how they are renewed, and how the loop learns what became of them.

Who renews: one thread of the replica (`lease_thread`), which has an event loop and a database
connection of its own. Nothing else does. A handler that blocks the main event loop therefore loses
no lease, neither its own nor those of the executions beside it. The database's clock decides how
long a lease lasts.

What is renewed: every attempt that runs here and every result that is not written yet. While the
main loop is blocked a claim can be committed and its answer unread, so then also what this replica
has claimed and does not know.

How the main loop learns of it: each heartbeat that came through is handed to the main loop with
`call_soon_threadsafe`, and there stops what was cancelled or lost. The flags that handlers read
(`cancelled`, and whether their transactions may still commit) are set by the thread itself, so they
hold in plain handlers and in the blocking one although the loop cannot act.

When the database is away: no heartbeat comes through. After 0.9 of a lease, counted from when the
last successful one was sent, the replica takes all its leases for lost by the clock of its own
process, because other replicas may start the same work soon (`Watch`). The main loop stops its
handlers, and if it is blocked, the thread closes their transactions.

When the main loop is blocked: the thread logs which saga blocks it after a second (`watchdog`), and
goes on renewing for two leases. Then the replica cannot be saved: the thread records the blocking
attempt as failed, lets the other leases run out within a second, and ends the process, so that its
supervisor starts a new one. Only time in which the thread itself could run counts: a process that
was stopped or starved has not been blocked by a handler.

What it cannot do: code that keeps Python's interpreter lock (a regular expression that backtracks
for ever, some C extensions) stops this thread, too. The leases of that replica run out as if it had
crashed. Such handlers belong in a process of their own.

Start and stop: the thread starts with the replica, whose first heartbeat has come through before
anything is claimed, and it stops after the last result was written. It is a daemon: a process that
has to end does not wait for it. It does not survive a fork, and the process isolation of handlers
forks from a helper process that never had it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from tenantcron.scheduler.metrics.counts import Counts
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Stop
from tenantcron.scheduler.steps.execute import CallLater, Executor, Timer
from tenantcron.store.connection.engine import Pins
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport
from tenantcron.store.steps import claiming, finishing
from tenantcron.store.steps.claiming import Claimed
from tenantcron.store.steps.finishing import Held

log = structlog.get_logger(__name__)

# Of the lease; the rest is for handlers to stop in, before anybody else may start their work.
TRUSTED: Final = 0.9


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat that came through: the attempts that it was for, and what is still held."""

    running: tuple[Claimed, ...]
    held: tuple[Held, ...]

    @property
    def cancelled(self) -> tuple[Held, ...]:
        """What is to stop, with the reason."""
        return tuple(held for held in self.held if held.cancel_reason is not None)

    @property
    def lost(self) -> tuple[Claimed, ...]:
        """What has no lease any more: another replica took it over, or it has ended meanwhile."""
        # By the lease: the same execution may run here twice, by a lost claim and by a new one.
        kept = {(held.id, held.lease_token) for held in self.held}
        return tuple(claimed for claimed in self.running if claimed.lease not in kept)


async def renew(
    replica: Replica,
    executor: Executor,
    unwritten: Sequence[Claimed] = (),
    *,
    draining: bool = False,
    is_blocked: bool = False,
) -> Beat:
    """Renew the leases of all that runs here, and report that this replica is alive."""
    running = executor.running
    leases: list[Claimed | claiming.Unstarted] = [*running, *unwritten]
    # Without leases there is only the report to write, which depends on no setting.
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
    return Beat(running, tuple(held))


def stop_ended(executor: Executor, counts: Counts, beat: Beat) -> None:
    """Stop what a heartbeat found cancelled or lost; in the main loop."""
    for held in beat.cancelled:
        reason, token = held.cancel_reason or "", held.lease_token
        executor.cancel(held.id, Stop.CANCELLED, reason, lease_token=token)
    still_running = {claimed.lease for claimed in executor.running}
    for claimed in beat.lost:
        # One that ended while the heartbeat was under way has no lease any more, and needs none.
        if claimed.lease in still_running:
            _stop_lost(executor, claimed)
            counts.leases_lost += 1


def _stop_lost(executor: Executor, claimed: Claimed) -> None:
    """What another replica has taken over must not go on here; its result would be refused."""
    log.warning(
        "lease_lost",
        execution=str(claimed.id),
        schedule=claimed.schedule_name,
        tenant=claimed.tenant_id,
    )
    executor.cancel(claimed.id, Stop.LOST, lease_token=claimed.lease_token)


def flag_ended(executor: Executor, beat: Beat) -> None:
    """Set the flags of what a heartbeat found cancelled or lost; in the thread."""
    for held in beat.cancelled:
        executor.flag((held.id, held.lease_token))
    for claimed in beat.lost:
        executor.flag(claimed.lease, closed=True)


class Watch:
    """Stops what runs here when no heartbeat has come through for nearly a lease.

    `silence` returns the seconds since the last one was sent that did. The thread moves that even
    while the loop is blocked, so a timer that goes off late looks again before it stops anything.
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
        """Watch from now on."""
        self._look()

    def end(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        left = self._trusted - self._silence()
        if left <= 0:
            self._cut_off()
            # What is claimed from now on is watched, too.
            left = self._trusted
        self._timer = self._call_later(left, self._look)

    def _cut_off(self) -> None:
        running = self._executor.running
        if running:
            log.error("cut_off", running=len(running))
        for claimed in running:
            self._executor.cancel(claimed.id, Stop.LOST, lease_token=claimed.lease_token)
        self._counts.leases_lost += len(running)
