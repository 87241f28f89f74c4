"""The signals that wake the loops of one replica."""

from dataclasses import dataclass, field, fields

from tenantcron.core.wake_signal import WakeSignal


@dataclass(frozen=True, slots=True)
class WakeSignals:
    """One signal per reason to wake up. A shutdown sets all of them."""

    # Wakes refresh: a tenant's schedules changed.
    schedules_changed: WakeSignal = field(default_factory=WakeSignal)
    # Wakes fire: a refresh changed cursors, or a task was submitted that is due soon.
    cursors_changed: WakeSignal = field(default_factory=WakeSignal)
    # Wakes claim: executions are pending, or slots were freed.
    work_pending: WakeSignal = field(default_factory=WakeSignal)
    # Wakes tenants: the platform's registry changed.
    tenants_changed: WakeSignal = field(default_factory=WakeSignal)
    # Wakes left_work: executions were cancelled, or recovered from a lost replica.
    executions_cancelled: WakeSignal = field(default_factory=WakeSignal)
    # Wakes timeline: the LISTEN connection was established again.
    listening: WakeSignal = field(default_factory=WakeSignal)
    # Wakes the drain and `run_once`: an attempt has ended.
    attempt_ended: WakeSignal = field(default_factory=WakeSignal)
    # Wakes the loops that wait only for their interval.
    stopping: WakeSignal = field(default_factory=WakeSignal)

    def set_all(self) -> None:
        """Wake all loops, because the replica stops."""
        for signal in fields(self):
            getattr(self, signal.name).set()
