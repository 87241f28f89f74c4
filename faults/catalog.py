"""All faults by name."""

from faults.breaking import (
    OWN,
    AppliesRace,
    ApplyRaces,
    Backlog,
    CursorsBack,
    LimitsChanged,
    NetworkCut,
    NetworkHalfOpen,
    NetworkSlow,
    OldHistory,
    SchemaDropped,
    ServerStop,
    Suspension,
)
from faults.outages import (
    AsynchronousFailover,
    DiskFull,
    NetworkSilent,
    PoolAtStandby,
    SynchronousFailover,
)
from faults.scene import Fault


def shared() -> tuple[Fault, ...]:
    """Return a new instance of each fault that strikes all schedulers."""
    return (
        ServerStop(),
        NetworkCut(),
        NetworkSlow(),
        NetworkHalfOpen(),
        Suspension(),
        LimitsChanged(),
        SchemaDropped(),
        ApplyRaces(),
        AppliesRace(),
        CursorsBack(),
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
    return (*OWN, *(fault.name for fault in shared()))
