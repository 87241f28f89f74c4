"""The verdict in numbers, as tables of Markdown."""

from collections import Counter
from collections.abc import Iterator, Sequence

from faults.checker import CHECKS
from faults.hunt import Caught
from faults.options import Verdict

_HEAD = (
    *("seed", "seconds", "kills", "occurrences", "lost", "doubled", "over the limit"),
    *("other findings", "deliveries", "repeated"),
)


def summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line a seed, and all of them together."""
    yield f"| {' | '.join(_HEAD)} |"
    yield f"|{'---|' * len(_HEAD)}"
    for one in verdicts:
        yield _line(str(one.seed), [one])
    if len(verdicts) > 1:
        yield _line("all", verdicts)


def _line(name: str, verdicts: Sequence[Verdict]) -> str:
    number = sum((one.findings.number for one in verdicts), Counter[str]())
    shown = ("lost", "doubled", "limit")
    others = number.total() - sum(number[kind] for kind in shown)
    deliveries = sum(one.deliveries for one in verdicts)
    effects = sum(one.effects for one in verdicts)
    repeated = f"{1 - effects / deliveries:.2%}" if deliveries else "-"
    cells = (
        name,
        f"{sum(one.seconds for one in verdicts):.0f}",
        f"{sum(one.journal.kills for one in verdicts):,}",
        f"{sum(one.occurrences for one in verdicts):,}",
        *(str(number[kind]) for kind in shown),
        str(others),
        f"{deliveries:,}",
        repeated,
    )
    return f"| {' | '.join(cells)} |"


def hunted(caught: Sequence[Caught]) -> Iterator[str]:
    """One line a mutant."""
    yield "| build | what is broken | caught by | after |"
    yield "|---|---|---|---|"
    for one in caught:
        by = ", ".join(one.by) or "nothing"
        yield f"| {one.mutant.name} | {one.mutant.broken} | {by} | {one.seconds:.0f} s |"
    yield ""
    broken = [one for one in caught if one.mutant.changes]
    yield f"{sum(bool(one.by) for one in broken)} of {len(broken)} were caught."


def details(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What each check has looked at and found, and how often each fault struck."""
    looked = sum((one.findings.looked for one in verdicts), Counter[str]())
    number = sum((one.findings.number for one in verdicts), Counter[str]())
    yield "| check | looked at | found |"
    yield "|---|---|---|"
    for kind in CHECKS:
        yield f"| {kind} | {looked[kind]:,} | {number[kind]:,} |"
    yield ""
    yield "| quick executions of steady tenants | number | median s | 99% s | last s |"
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
    struck = sum((one.journal.struck for one in verdicts), Counter[str]())
    yield "| fault | times |"
    yield "|---|---|"
    for name, times in sorted(struck.items()):
        yield f"| {name} | {times:,} |"
