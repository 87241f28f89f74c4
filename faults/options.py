"""The options of a seed, and its result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from faults.journal import Findings, Journal
from faults.postgres import Kind
from faults.remote_workload import Remote


def _ignore(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a seed."""

    seed: int
    seconds: float
    faults: frozenset[str]
    steady: int = 320
    victims: int = 5
    # Mean lifetime of a victim, in seconds.
    lifetime: float = 0.5
    # Minimum number of kills; 0 for any number.
    kills: int = 0
    # Seconds without any execution finishing after all faults are healed.
    stall_timeout: float = 90.0
    # Where the work runs; None: in handlers, and in calls that wait for the response.
    remote: Remote | None = None
    # Which Postgres to use.
    kind: Kind = Kind.EMBEDDED
    # A different build of the product.
    tree: Path | None = None
    # Stop at the first finding.
    until_found: bool = False
    # Receives progress messages.
    report: Callable[[str], None] = _ignore


@dataclass(slots=True)
class Verdict:
    """The result of a seed."""

    seed: int
    findings: Findings
    journal: Journal
    seconds: float = 0.0
    occurrences: int = 0
    deliveries: int = 0
    effects: int = 0
    most_running: int = 0
    # Seconds from due time to success, sorted: for executions that were never lost with a worker,
    # and for the others.
    ends: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))

    @property
    def repeated(self) -> float:
        """The share of deliveries that were not the first for their occurrence."""
        return 1 - self.effects / self.deliveries if self.deliveries else 0.0
