"""What a fault is, and what it may touch."""

from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Protocol

from faults.cluster import World
from faults.journal import Journal
from faults.workload import Workload


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault may touch."""

    world: World
    workload: Workload
    journal: Journal
    random: Random
    # How long faults strike, all together.
    seconds: float = 60.0

    def at_most(self, seconds: float) -> float:
        """Return a duration that leaves room for others in a short run."""
        return min(seconds, self.seconds / 3)


class Part(Enum):
    """What large faults take away."""

    SERVERS = auto()
    # The network of the scheduler that is far away.
    FAR = auto()


class NotNowError(Exception):
    """A fault lacks what it needs at the moment, and strikes a little later."""


class Fault(Protocol):
    """Something that is broken for all, and heals."""

    name: str
    # Seconds until it strikes, at least and at most; and again, unless it strikes once only.
    pause: tuple[float, float]
    once: bool
    # What it takes away; no two faults take the same thing away at the same time.
    breaks: frozenset[Part]

    def strike(self, scene: Scene) -> float | None:
        """Break it; return after how many seconds it heals, None if there is nothing to heal."""

    def heal(self, scene: Scene) -> None:
        """Heal it."""


class Lasting:
    """A fault that strikes again and again, and leaves the servers alone."""

    once = False
    breaks: frozenset[Part] = frozenset()


class Healed(Lasting):
    """A fault that leaves nothing to heal."""

    def heal(self, scene: Scene) -> None:
        """Nothing is left to heal."""
