"""How a seed is run, and what came out of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from faults.journal import Findings, Journal
from faults.postgres import Kind


def _silently(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a seed is run."""

    seed: int
    seconds: float
    faults: frozenset[str]
    steady: int = 320
    mortals: int = 5
    # How long a scheduler lives, on average.
    life: float = 0.5
    # Not before so many kills; 0 is no matter how many.
    kills: int = 0
    # How long nothing may come to its end once all is healed.
    settle: float = 90.0
    # Whose Postgres.
    kind: Kind = Kind.EMBEDDED
    # Another build of the product.
    tree: Path | None = None
    # Enough is known as soon as anything is wrong.
    until_found: bool = False
    # Hears from time to time how far it is.
    tell: Callable[[str], None] = _silently


@dataclass(slots=True)
class Verdict:
    """What came out of a seed."""

    seed: int
    findings: Findings
    journal: Journal
    seconds: float = 0.0
    occurrences: int = 0
    deliveries: int = 0
    effects: int = 0
    most_running: int = 0
    # Seconds from when an execution was due to its success, in order; for those that were never
    # lost with a worker, and for the others.
    ends: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))

    @property
    def repeated(self) -> float:
        """The share of deliveries that were not the first of their occurrence."""
        return 1 - self.effects / self.deliveries if self.deliveries else 0.0
