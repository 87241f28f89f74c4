"""The two strips of the overview: the next 24 hours as load, the last 24 hours by outcome.

The load is reckoned from timetables, not from rows: schedules that share one are reckoned once, and
intervals by division. What a timetable occurs at is remembered until the next quarter of an hour.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Final

from tenantcron.core.errors import TenantcronError
from tenantcron.cron.occurrences import upcoming
from tenantcron.cron.timetable import IntervalTimetable
from tenantcron.cron.zones import zone
from tenantcron.scheduler.due import timetable_of
from tenantcron.store.execution_history import Outcomes
from tenantcron.store.executions import State
from tenantcron.store.schedule_cursors import SharedTimetable

QUARTER: Final = timedelta(minutes=15)
QUARTERS: Final = 96
DAY: Final = QUARTER * QUARTERS
HEIGHT: Final = 88
STEP: Final = 10
WIDTH: Final = STEP * QUARTERS
# So many timetables are reckoned, those of most schedules first; the page says what is left out.
MOST_TIMETABLES: Final = 2_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT: Final = timedelta(microseconds=1)
# What has ended, from the ground up; at the top is what everybody must see.
ENDED: Final = (State.SUCCEEDED, State.SKIPPED, State.CANCELLED, State.MISSED, State.DEAD)


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a strip, in its own units."""

    x: int
    y: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A time below a strip."""

    x: int
    text: str


@dataclass(frozen=True, slots=True)
class Hour:
    """One row of the table that says the same as a strip."""

    since: datetime
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Crowd:
    """A quarter of an hour in which more is due than may run at once."""

    since: datetime
    due: int


@dataclass(frozen=True, slots=True)
class Load:
    """What is due, by quarters of an hour, against the limit."""

    since: datetime
    counts: tuple[int, ...]
    limit: int
    # Schedules whose timetables were reckoned, and those beyond the bounds.
    schedules: int
    left_out: int

    @property
    def total(self) -> int:
        """How much is due in all."""
        return sum(self.counts)

    @property
    def top(self) -> int:
        """What the height of the strip stands for."""
        return max(*self.counts, self.limit, 1)

    @property
    def line(self) -> float:
        """Where the limit is drawn."""
        return HEIGHT - self.limit / self.top * HEIGHT

    def bars(self) -> Iterator[Bar]:
        """Yield a bar for each quarter in which something is due."""
        for index, due in enumerate(self.counts):
            if due:
                over = due > self.limit
                height = max(due / self.top * HEIGHT, 1.5)
                title = f"{_span(self.since + QUARTER * index)}: {due} due"
                yield Bar(
                    index * STEP,
                    HEIGHT - height,
                    height,
                    "over" if over else "due",
                    f"{title}, over the limit of {self.limit}" if over else title,
                )

    def crowds(self, most: int = 5) -> list[Crowd]:
        """Return the fullest quarters over the limit, by time."""
        over = [
            Crowd(self.since + QUARTER * index, due)
            for index, due in enumerate(self.counts)
            if due > self.limit
        ]
        fullest = sorted(over, key=lambda one: one.due, reverse=True)[:most]
        return sorted(fullest, key=lambda one: one.since)

    def hours(self) -> list[Hour]:
        """Return the same by hours."""
        return _by_hours(self.since, [(one,) for one in self.counts])


def reckon(shared: Sequence[SharedTimetable], now: datetime, limit: int) -> Load:
    """Reckon what is due in the day that begins with this quarter of an hour."""
    since = quarter_of(now)
    counts = [0] * QUARTERS
    for one in shared[:MOST_TIMETABLES]:
        for index, due in _occurrences(one.cron_expr, one.timezone, since):
            counts[index] += due * one.schedules
    left_out = sum(one.schedules for one in shared[MOST_TIMETABLES:])
    known = sum(one.schedules for one in shared) - left_out
    return Load(since, tuple(counts), limit, known, left_out)


def quarter_of(moment: datetime) -> datetime:
    """Return the beginning of a moment's quarter of an hour."""
    return moment - (moment - _EPOCH) % QUARTER


@lru_cache(maxsize=2 * MOST_TIMETABLES)
def _occurrences(cron_expr: str, timezone: str, since: datetime) -> tuple[tuple[int, int], ...]:
    """Return in which quarters a timetable occurs, and how often."""
    try:
        timetable, place = timetable_of(cron_expr), zone(timezone)
    except TenantcronError:
        return ()  # such a schedule fires nothing either
    if isinstance(timetable, IntervalTimetable):
        return tuple(_multiples(timetable.interval, since))
    times = takewhile(lambda one: one < since + DAY, upcoming(timetable, place, since - _MOMENT))
    return tuple(Counter((one - since) // QUARTER for one in times).items())


def _multiples(interval: timedelta, since: datetime) -> Iterator[tuple[int, int]]:
    def before(moment: datetime) -> int:
        return -((_EPOCH - moment) // interval)

    for index in range(QUARTERS):
        begin = since + QUARTER * index
        if due := before(begin + QUARTER) - before(begin):
            yield index, due


@dataclass(frozen=True, slots=True)
class Timeline:
    """What has ended, by quarters of an hour and outcome."""

    since: datetime
    counts: tuple[Mapping[State, int], ...]
    # Whether only the newest executions were counted.
    is_cut: bool

    @property
    def totals(self) -> dict[State, int]:
        """How much ended in which way."""
        return {state: sum(one.get(state, 0) for one in self.counts) for state in ENDED}

    def bars(self) -> Iterator[Bar]:
        """Yield a bar for each quarter and outcome, stacked."""
        top = max(1, *(sum(one.values()) for one in self.counts))
        for index, counts in enumerate(self.counts):
            ground = float(HEIGHT)
            for state in ENDED:
                if number := counts.get(state, 0):
                    height = max(number / top * HEIGHT, 1.5)
                    ground -= height
                    title = f"{_span(self.since + QUARTER * index)}: {number} {state.lower()}"
                    yield Bar(index * STEP, ground, height, state, title)

    def hours(self) -> list[Hour]:
        """Return the same by hours."""
        return _by_hours(
            self.since, [tuple(one.get(state, 0) for state in ENDED) for one in self.counts]
        )


def timeline(outcomes: Iterable[Outcomes], now: datetime, most: int) -> Timeline:
    """Lay what has ended along the day that ends with this quarter of an hour."""
    since = quarter_of(now) + QUARTER - DAY
    counts: list[Counter[State]] = [Counter() for _ in range(QUARTERS)]
    total = 0
    for one in outcomes:
        index = (one.since - since) // QUARTER
        total += one.number
        if 0 <= index < QUARTERS:
            counts[index][one.state] += one.number
    return Timeline(since, tuple(counts), total >= most)


def marks(since: datetime) -> list[Mark]:
    """Return every third full hour of a strip."""
    times = ((index, since + QUARTER * index) for index in range(QUARTERS))
    return [
        Mark(index * STEP, f"{time:%H:%M}")
        for index, time in times
        if time.hour % 3 == 0 and time.minute == 0
    ]


def _by_hours(since: datetime, counts: Sequence[tuple[int, ...]]) -> list[Hour]:
    found: dict[datetime, tuple[int, ...]] = {}
    for index, some in enumerate(counts):
        hour = (since + QUARTER * index).replace(minute=0)
        found[hour] = (
            tuple(map(sum, zip(found[hour], some, strict=True))) if hour in found else some
        )
    return [Hour(*one) for one in found.items() if any(one[1])]


def _span(since: datetime) -> str:
    return f"{since:%H:%M} to {since + QUARTER:%H:%M} UTC"
