"""LISTEN: turns notifications of the database into wake signals."""

import structlog

from tenantcron.core.names import TenantId
from tenantcron.scheduler.replica.claim_loop import ClaimLoop
from tenantcron.scheduler.replica.notifications import Hints, listen
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.wake_signals import WakeSignals
from tenantcron.store.steps.claiming import CANCEL, RECOVERED, TASK_SOON
from tenantcron.tenants.source.follow import Follower

log = structlog.get_logger(__name__)


async def listen_for_notifications(
    replica: Replica, signals: WakeSignals, claims: ClaimLoop, follower: Follower | None
) -> None:
    """Wake loops on notifications, until cancelled."""

    def schedules_changed(_: TenantId) -> None:
        signals.schedules_changed.set()

    def work(payload: str) -> None:
        _note_ended(payload, signals)
        if payload == CANCEL:
            claims.note_cancellation()
        elif payload == TASK_SOON:
            signals.cursors_changed.set()
        else:
            signals.work_pending.set()

    def lost(error: str) -> None:
        log.warning("listening_lost", error=error)

    def tenants_changed() -> None:
        if follower is not None:
            follower.hear()
            signals.tenants_changed.set()

    def listening() -> None:
        # Notifications that were sent before this moment are lost.
        claims.note_cancellation()
        for signal in (
            signals.schedules_changed,
            signals.cursors_changed,
            signals.work_pending,
            signals.listening,
            signals.executions_cancelled,
        ):
            signal.set()
        tenants_changed()

    hints = Hints(
        schedules_changed, work, on_listening=listening, on_lost=lost, on_tenants=tenants_changed
    )
    await listen(replica.database.target, hints, replica.random)


def _note_ended(payload: str, signals: WakeSignals) -> None:
    # Some that were recovered may have been asked to stop.
    if payload in (CANCEL, RECOVERED):
        signals.executions_cancelled.set()
