"""Run a mutant, seed by seed, until a check finds something or the time limit is reached."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from faults.mutant import Mutant, build
from faults.mutants import CONTROL
from faults.run import run
from faults.testbed import ROOT

# A broken build must be caught within this many seconds.
AT_MOST = 600.0
_FOLDER = ROOT / "build" / "mutants"


@dataclass(frozen=True, slots=True)
class HuntResult:
    """A mutant and the checks that detected it; none if it was not caught."""

    mutant: Mutant
    caught_by: tuple[str, ...]
    seconds: float
    lines: Sequence[str]


def control(seed: int) -> HuntResult:
    """Run an unmodified build once."""
    began = monotonic()
    verdict = run(CONTROL.options(seed, build(CONTROL, _FOLDER)))
    lines = [f"{CONTROL.name}, seed {seed}", *verdict.findings.lines()]
    return HuntResult(CONTROL, tuple(verdict.findings.counts), monotonic() - began, lines)


def hunt(mutant: Mutant, seed: int) -> HuntResult:
    """Run a mutant until it is caught."""
    tree, began = build(mutant, _FOLDER), monotonic()
    while monotonic() - began < AT_MOST:
        verdict = run(mutant.options(seed, tree))
        if verdict.findings.any:
            seconds = monotonic() - began
            lines = [f"{mutant.name}, seed {seed}", *verdict.findings.lines()]
            return HuntResult(mutant, tuple(verdict.findings.counts), seconds, lines)
        seed += 1
    return HuntResult(mutant, (), monotonic() - began, [f"{mutant.name} was not caught"])
