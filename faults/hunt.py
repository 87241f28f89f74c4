"""Runs a mutant, seed by seed, until something is found or its time is up."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from faults.cluster import ROOT
from faults.mutants import CONTROL, Mutant, build
from faults.run import run

# A broken build has to be caught within that many seconds.
AT_MOST = 600.0
_FOLDER = ROOT / "build" / "mutants"


@dataclass(frozen=True, slots=True)
class Caught:
    """A mutant and the checks that have noticed it; none have if there are none."""

    mutant: Mutant
    by: tuple[str, ...]
    seconds: float
    words: Sequence[str]


def control(seed: int) -> Caught:
    """Run a build with nothing taken out, once."""
    began = monotonic()
    verdict = run(CONTROL.options(seed, build(CONTROL, _FOLDER)))
    words = [f"{CONTROL.name}, seed {seed}", *verdict.findings.told()]
    return Caught(CONTROL, tuple(verdict.findings.number), monotonic() - began, words)


def hunt(mutant: Mutant, seed: int) -> Caught:
    """Run a mutant until it is caught."""
    tree, began = build(mutant, _FOLDER), monotonic()
    while monotonic() - began < AT_MOST:
        verdict = run(mutant.options(seed, tree))
        if verdict.findings.any:
            seconds = monotonic() - began
            words = [f"{mutant.name}, seed {seed}", *verdict.findings.told()]
            return Caught(mutant, tuple(verdict.findings.number), seconds, words)
        seed += 1
    return Caught(mutant, (), monotonic() - began, [f"{mutant.name} got away"])
