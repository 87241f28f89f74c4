"""The fire loop: fires due cursors and tasks, and sleeps until the next one is due."""

from datetime import timedelta

from tenantcron.scheduler.replica import polling_loops
from tenantcron.scheduler.replica.claim_loop import ClaimLoop
from tenantcron.scheduler.replica.polling_loops import seconds_left, sleep_time
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.wake_signals import WakeSignals
from tenantcron.scheduler.steps.fire import Fired, fire_batch
from tenantcron.scheduler.steps.fire_tasks import AHEAD, fire_due_tasks
from tenantcron.store.steps import glances
from tenantcron.targets.tracing import step


class FireLoop:
    """Fires the due cursors of a database, together with other replicas."""

    def __init__(self, replica: Replica, signals: WakeSignals, claiming: ClaimLoop) -> None:
        self._replica, self._signals = replica, signals
        self._claiming = claiming
        # Whether the next cursor was far in the future. Then the next step begins with a glance.
        self._is_idle = False

    async def step(self) -> float:
        """Fire a batch of due cursors; an idle replica first glances at the next one."""
        is_glance = self._is_idle and not self._signals.cursors_changed.was_set
        seconds = await seconds_left(self._next_due) if is_glance else 0.0
        if seconds is not None and seconds <= 0:
            fired = await self._fire_cursors()
            tasks = await self._fire_tasks(AHEAD)
            if fired.more or tasks.more:
                return 0
            seconds = await seconds_left(self._next_due)
        self._is_idle = seconds is None or seconds > polling_loops.LONGEST_SLEEP
        return sleep_time(seconds)

    async def fire_batch(self) -> Fired:
        """Fire one batch of due cursors, and one of tasks that are due now, and start nothing."""
        with step(self._replica.tracing, "fire") as note:
            fired = await fire_batch(self._replica)
            note(fired.executions)
        return fired.plus(await self._fire_tasks(timedelta(0)))

    async def _fire_cursors(self) -> Fired:
        """Fire one batch of due cursors; start its executions at once, or wake the claim loop."""
        with step(self._replica.tracing, "fire") as note:
            fired = await self._claiming.fire_and_start()
            if fired is None:
                fired = await fire_batch(self._replica)
                if fired.executions:
                    self._signals.work_pending.set()
            note(fired.executions)
        return fired

    async def _fire_tasks(self, ahead: timedelta) -> Fired:
        with step(self._replica.tracing, "fire") as note:
            fired = await fire_due_tasks(self._replica, ahead)
            note(fired.executions)
        if fired.executions:
            self._signals.work_pending.set()
        return fired

    async def _next_due(self) -> float | None:
        replica = self._replica
        return await glances.seconds_to_next_due(replica.database, replica.clock(), AHEAD)
