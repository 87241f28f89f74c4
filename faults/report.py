"""The verdict as Markdown tables."""

from collections import Counter
from collections.abc import Iterator, Sequence

from faults.checker import CHECKS
from faults.hunt import HuntResult
from faults.options import Verdict

_HEAD = (
    *("seed", "seconds", "kills", "occurrences", "lost", "duplicated", "over the limit"),
    *("other findings", "deliveries", "repeated"),
)


def summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line per seed, and a total."""
    yield f"| {' | '.join(_HEAD)} |"
    yield f"|{'---|' * len(_HEAD)}"
    for verdict in verdicts:
        yield _line(str(verdict.seed), [verdict])
    if len(verdicts) > 1:
        yield _line("all", verdicts)


def _line(name: str, verdicts: Sequence[Verdict]) -> str:
    counts = sum((verdict.findings.counts for verdict in verdicts), Counter[str]())
    shown = ("lost", "duplicated", "limit")
    others = counts.total() - sum(counts[kind] for kind in shown)
    deliveries = sum(verdict.deliveries for verdict in verdicts)
    effects = sum(verdict.effects for verdict in verdicts)
    repeated = f"{1 - effects / deliveries:.2%}" if deliveries else "-"
    cells = (
        name,
        f"{sum(verdict.seconds for verdict in verdicts):.0f}",
        f"{sum(verdict.journal.kills for verdict in verdicts):,}",
        f"{sum(verdict.occurrences for verdict in verdicts):,}",
        *(str(counts[kind]) for kind in shown),
        str(others),
        f"{deliveries:,}",
        repeated,
    )
    return f"| {' | '.join(cells)} |"


def mutant_table(results: Sequence[HuntResult]) -> Iterator[str]:
    """One line per mutant."""
    yield "| build | what is broken | caught by | after |"
    yield "|---|---|---|---|"
    for result in results:
        caught_by = ", ".join(result.caught_by) or "nothing"
        mutant = result.mutant
        yield f"| {mutant.name} | {mutant.broken} | {caught_by} | {result.seconds:.0f} s |"
    yield ""
    broken = [result for result in results if result.mutant.changes]
    yield f"{sum(bool(result.caught_by) for result in broken)} of {len(broken)} were caught."


def details(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What each check examined and found, and how often each fault struck."""
    examined = sum((verdict.findings.examined for verdict in verdicts), Counter[str]())
    counts = sum((verdict.findings.counts for verdict in verdicts), Counter[str]())
    yield "| check | examined | found |"
    yield "|---|---|---|"
    for kind in CHECKS:
        yield f"| {kind} | {examined[kind]:,} | {counts[kind]:,} |"
    yield ""
    yield "| quick executions of steady tenants | number | median s | 99% s | max s |"
    yield "|---|---|---|---|---|"
    for place, name in enumerate(("never lost with a worker", "lost at least once")):
        ends = sorted(end for verdict in verdicts for end in verdict.ends[place])
        if ends:
            shown = (ends[len(ends) // 2], ends[len(ends) * 99 // 100], ends[-1])
            cells = " | ".join(f"{seconds:.1f}" for seconds in shown)
            yield f"| {name} | {len(ends):,} | {cells} |"
    yield ""
    if gaps := sum(len(verdict.journal.gaps) for verdict in verdicts):
        repeats = sum(verdict.journal.repeats for verdict in verdicts)
        yield (
            f"{repeats:,} deliveries were repeated under the same attempt, because {gaps}"
            " asynchronous failovers had lost their records."
        )
        yield ""
    struck = sum((verdict.journal.struck for verdict in verdicts), Counter[str]())
    yield "| fault | times |"
    yield "|---|---|"
    for name, times in sorted(struck.items()):
        yield f"| {name} | {times:,} |"
