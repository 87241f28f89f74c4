"""The fire loop: fires due cursors and tasks, and sleeps until the next one is due."""

from tenantcron.scheduler.replica import polling_loops
from tenantcron.scheduler.replica.polling_loops import seconds_left, sleep_time
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.wake_signals import WakeSignals
from tenantcron.scheduler.steps.fire import Fired, fire_batch
from tenantcron.scheduler.steps.fire_tasks import fire_due_tasks
from tenantcron.store.steps import glances
from tenantcron.targets.tracing import step


class FireLoop:
    """Fires the due cursors of a database, together with other replicas."""

    def __init__(self, replica: Replica, signals: WakeSignals) -> None:
        self._replica, self._signals = replica, signals
        # Whether the next cursor was far in the future. Then the next step begins with a glance.
        self._is_idle = False

    async def step(self) -> float:
        """Fire a batch of due cursors; an idle replica first glances at the next one."""
        is_glance = self._is_idle and not self._signals.cursors_changed.was_set
        seconds = await seconds_left(self._next_due) if is_glance else 0.0
        if seconds is not None and seconds <= 0:
            fired = await self.fire_batch()
            if fired.executions:
                self._signals.work_pending.set()
            if fired.more:
                return 0
            seconds = await seconds_left(self._next_due)
        self._is_idle = seconds is None or seconds > polling_loops.LONGEST_SLEEP
        return sleep_time(seconds)

    async def fire_batch(self) -> Fired:
        """Fire one batch of due cursors, and one of due tasks."""
        with step(self._replica.tracing, "fire") as note:
            fired = await fire_batch(self._replica)
            tasks = await fire_due_tasks(self._replica)
            note(fired.executions + tasks.executions)
        return Fired(
            fired.executions + tasks.executions, fired.quarantined, fired.more or tasks.more
        )

    async def _next_due(self) -> float | None:
        return await glances.seconds_to_next_due(self._replica.database, self._replica.clock())
