"""The interface of a fault, and the context that it acts on."""

from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Protocol

from faults.journal import Journal
from faults.testbed import Testbed
from faults.workload import Workload


@dataclass(frozen=True, slots=True)
class FaultContext:
    """What a fault may act on."""

    testbed: Testbed
    workload: Workload
    journal: Journal
    random: Random
    # The duration of all faults together.
    seconds: float = 60.0

    def at_most(self, seconds: float) -> float:
        """Return a duration that leaves time for other faults in a short run."""
        return min(seconds, self.seconds / 3)


class Part(Enum):
    """What large faults take down."""

    SERVERS = auto()
    # The network of the remote scheduler.
    FAR = auto()


class NotNowError(Exception):
    """A precondition of the fault is not met now; it is tried again soon."""


class Fault(Protocol):
    """A fault that affects all schedulers, and heals."""

    name: str
    # Minimum and maximum seconds before it strikes, and between strikes unless `once` is set.
    pause: tuple[float, float]
    once: bool
    # What it takes down; no two faults take down the same part at the same time.
    breaks: frozenset[Part]

    def strike(self, context: FaultContext) -> float | None:
        """Break it; return the seconds until it heals, None if there is nothing to heal."""

    def heal(self, context: FaultContext) -> None:
        """Heal it."""


class RecurringFault:
    """A recurring fault that does not affect the servers."""

    once = False
    breaks: frozenset[Part] = frozenset()


class InstantFault(RecurringFault):
    """A fault with nothing to heal."""

    def heal(self, context: FaultContext) -> None:
        """Do nothing."""
