"""How fast timetables are compared with croniter and cronsim, in one run on one machine.

Run it from the root of the repository: `.venv/bin/python bench/cron.py`. Figures are microseconds,
the best of several rounds. On a busy machine compare the ratios, not the figures.
"""

import timeit
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice

from croniter import croniter
from cronsim import CronSim

from tenantcron.cron.analysis import fires_rarely, never_fires, shortest_gap
from tenantcron.cron.expression import read_expression
from tenantcron.cron.occurrences import next_occurrence, upcoming
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import CronTimetable
from tenantcron.cron.zones import zone

EXPRESSIONS = (
    "*/15 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 9 * * 1-5",
    "0,30 8-18 * * mon-fri",
    "0 0 1 * *",
    "15 3 1,15 * *",
    "0 6 1 1,4,7,10 *",
)
SPECIALS = ("0 0 L * *", "0 0 LW * *", "0 0 * * 5L", "0 0 29 2 *", "59,0 23,0 29,1 2,3 *")
BEGIN = datetime(2026, 1, 1, 0, 7, tzinfo=UTC)
STEPS = 40
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; None where a library lacks the feature."""

    what: str
    ours: float
    croniter: float | None = None
    cronsim: float | None = None


def best(work: Callable[[], object], operations: int) -> float:
    """Return microseconds per operation of the fastest round."""
    return min(timeit.repeat(work, number=1, repeat=ROUNDS)) / operations * 1e6


def parse_uncached(text: str) -> CronTimetable:
    """Parse without the cache of `parse`."""
    return read_expression(text, text.split())


def step_row(name: str) -> Row:
    """Measure one step to the next occurrence, with everything parsed before."""
    clock = zone(name)
    begin = BEGIN.astimezone(clock)
    timetables = [parse(text) for text in EXPRESSIONS]
    operations = STEPS * len(EXPRESSIONS)

    def ours() -> None:
        for timetable in timetables:
            for _ in islice(upcoming(timetable, clock, BEGIN), STEPS):
                pass

    def with_croniter() -> None:
        for iterator in croniters:
            for _ in range(STEPS):
                iterator.get_next(datetime)

    def with_cronsim() -> None:
        for iterator in cronsims:
            for _ in range(STEPS):
                next(iterator)

    croniters = [croniter(text, begin) for text in EXPRESSIONS]
    cronsims = [CronSim(text, begin) for text in EXPRESSIONS]
    return Row(
        f"next occurrence, {name}",
        best(ours, operations),
        best(with_croniter, operations),
        best(with_cronsim, operations),
    )


def first_row(name: str) -> Row:
    """Measure text to first occurrence, without any cache."""
    clock = zone(name)
    begin = BEGIN.astimezone(clock)
    count = len(EXPRESSIONS)

    def ours() -> None:
        for text in EXPRESSIONS:
            next_occurrence(parse_uncached(text), clock, BEGIN)

    return Row(
        f"parse and first, {name}",
        best(ours, count),
        best(lambda: [croniter(text, begin).get_next(datetime) for text in EXPRESSIONS], count),
        best(lambda: [next(CronSim(text, begin)) for text in EXPRESSIONS], count),
    )


def parse_rows() -> list[Row]:
    """Measure parsing, the first time and repeated."""
    count = len(EXPRESSIONS)
    croniter_parse = best(lambda: [croniter(text, BEGIN) for text in EXPRESSIONS], count)
    cronsim_parse = best(lambda: [CronSim(text, BEGIN) for text in EXPRESSIONS], count)
    return [
        Row(
            "parse",
            best(lambda: [parse_uncached(text) for text in EXPRESSIONS], count),
            croniter_parse,
            cronsim_parse,
        ),
        Row("parse again", best(lambda: [parse(text) for text in EXPRESSIONS], count)),
    ]


def analysis_rows() -> list[Row]:
    """Measure the analysis of a timetable."""
    timetables = [parse(text) for text in (*EXPRESSIONS, *SPECIALS)]
    count = len(timetables)
    slowest = max(best(partial(shortest_gap, timetable), 1) for timetable in timetables)
    return [
        Row(
            "shortest gap",
            best(lambda: [shortest_gap(timetable) for timetable in timetables], count),
        ),
        Row("shortest gap, slowest", slowest),
        Row(
            "never fires", best(lambda: [never_fires(timetable) for timetable in timetables], count)
        ),
        Row(
            "fires rarely",
            best(lambda: [fires_rarely(timetable) for timetable in timetables], count),
        ),
    ]


def show(rows: list[Row]) -> None:
    """Print the table; the ratios show how many times faster tenantcron is."""
    print(f"{'microseconds':<36}{'ours':>9}{'croniter':>10}{'ratio':>8}{'cronsim':>10}{'ratio':>8}")
    for row in rows:
        others = "".join(_compared(other, row.ours) for other in (row.croniter, row.cronsim))
        print(f"{row.what:<36}{row.ours:>9.2f}{others}".rstrip())


def _compared(other: float | None, ours: float) -> str:
    return f"{'-':>10}{'-':>8}" if other is None else f"{other:>10.1f}{other / ours:>7.1f}x"


if __name__ == "__main__":
    zones = ("UTC", "Europe/London", "America/New_York")
    show(
        [
            *(step_row(name) for name in zones),
            *(first_row(name) for name in zones[:2]),
            *parse_rows(),
            *analysis_rows(),
        ]
    )
