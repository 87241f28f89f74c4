"""All faults by name."""

from faults.fault import Fault
from faults.outages import (
    AsynchronousFailover,
    DiskFull,
    NetworkSilent,
    PoolAtStandby,
    SynchronousFailover,
)
from faults.small_faults import (
    PER_REPLICA,
    ApplyDuringFire,
    Backlog,
    ConcurrentApplies,
    CursorsRewound,
    LimitsChanged,
    NetworkCut,
    NetworkHalfOpen,
    NetworkSlow,
    OldHistory,
    SchemaDropped,
    ServerStop,
    Suspension,
)


def shared() -> tuple[Fault, ...]:
    """Return a new instance of each fault that affects all schedulers."""
    return (
        ServerStop(),
        NetworkCut(),
        NetworkSlow(),
        NetworkHalfOpen(),
        Suspension(),
        LimitsChanged(),
        SchemaDropped(),
        ApplyDuringFire(),
        ConcurrentApplies(),
        CursorsRewound(),
        Backlog(),
        OldHistory(),
        SynchronousFailover(),
        AsynchronousFailover(),
        NetworkSilent(),
        PoolAtStandby(),
        DiskFull(),
    )


def names() -> tuple[str, ...]:
    """Return the names of all faults."""
    return (*PER_REPLICA, *(fault.name for fault in shared()))
