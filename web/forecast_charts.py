"""The two strips of the overview: the next 24 hours as load, the last 24 hours by outcome.

The load is reckoned from timetables, not from rows: schedules that share one are reckoned once, and
intervals by division. What a timetable occurs at is remembered until the next quarter of an hour.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise, takewhile
from math import lcm
from typing import Final, NamedTuple, TypeVar

from tenantcron.core.errors import TenantcronError
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.rows.execution_history import Outcomes
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.schedule_cursors import SharedTimetable

QUARTER: Final = timedelta(minutes=15)
DAY: Final = timedelta(hours=24)
# 24 hours that begin within a quarter end within another.
QUARTERS: Final = DAY // QUARTER + 1
MINUTE: Final = timedelta(minutes=1)
MINUTES: Final = QUARTERS * (QUARTER // MINUTE)
HEIGHT: Final = 88
# Whatever there is one of must be seen, however many there are of something else.
LEAST: Final = 3.0
STEP: Final = 10
WIDTH: Final = STEP * QUARTERS
# So many timetables are reckoned, those of most schedules first; the page says what is left out.
MOST_TIMETABLES: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Quarter = TypeVar("_Quarter")
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
    """A minute that begins with more due than may run at once."""

    at: datetime
    due: int


@dataclass(frozen=True, slots=True)
class Load:
    """What is due in the next 24 hours, by quarters and at each full minute, against the limit.

    The limit holds for what runs at once, so a quarter is measured by its fullest minute: a hundred
    that begin together collide, a hundred that follow each other do not. Cron fires at full
    minutes, so what collides is due at the same one.
    """

    since: datetime
    counts: tuple[int, ...]
    moments: tuple[int, ...]
    limit: int
    # Schedules whose timetables were reckoned, and those beyond the bounds.
    schedules: int
    left_out: int

    @property
    def total(self) -> int:
        """How much is due in all."""
        return sum(self.counts)

    @property
    def peaks(self) -> tuple[int, ...]:
        """What is due in the fullest minute of each quarter."""
        size = QUARTER // MINUTE
        return tuple(max(self.moments[at : at + size]) for at in range(0, len(self.moments), size))

    @property
    def top(self) -> int:
        """What the height of the strip stands for."""
        return max(*self.peaks, self.limit, 1)

    @property
    def line(self) -> float:
        """Where the limit is drawn."""
        return HEIGHT - self.limit / self.top * HEIGHT

    @property
    def quarters_over(self) -> int:
        """In how many quarters more is due at once than may run."""
        return sum(peak > self.limit for peak in self.peaks)

    def bars(self) -> Iterator[Bar]:
        """Yield for each quarter its fullest minute: what fits below the limit, what is over it."""
        for index, (due, peak) in enumerate(zip(self.counts, self.peaks, strict=True)):
            title = self._title(index, due, peak)
            within = min(peak, self.limit)
            if within:
                yield self._bar(index, within, HEIGHT, "peak", title)
            if peak > within:
                yield self._bar(index, peak - within, self.line, "over", title)

    def _title(self, index: int, due: int, peak: int) -> str:
        over = f", over the limit of {self.limit}" if peak > self.limit else ""
        when = _span(self.since + QUARTER * index)
        return f"{when}: {due:,} due, {peak:,} in the fullest minute{over}"

    def _bar(self, index: int, number: int, ground: float, kind: str, title: str) -> Bar:
        height = max(number / self.top * HEIGHT, LEAST)
        return Bar(index * STEP, ground - height, height, kind, title)

    def crowds(self, most: int = 3) -> list[Crowd]:
        """Return the fullest moments over the limit, by time."""
        over = [
            Crowd(self.since + MINUTE * index, due)
            for index, due in enumerate(self.moments)
            if due > self.limit
        ]
        fullest = sorted(over, key=lambda one: one.due, reverse=True)[:most]
        return sorted(fullest, key=lambda one: one.at)

    def hours(self) -> list[Hour]:
        """Return the same by hours: what is due, and what in the fullest minute."""
        due, peaks = _by_hours(self.since, self.counts), _by_hours(self.since, self.peaks)
        return [
            Hour(hour, (sum(some), max(peaks[hour]))) for hour, some in due.items() if any(some)
        ]


def reckon(shared: Sequence[SharedTimetable], now: datetime, limit: int) -> Load:
    """Reckon what is due in the 24 hours that begin with the next minute."""
    since, until = quarter_of(now), end_of_day_ahead(now)
    ahead = range((until - DAY - since) // MINUTE, (until - since) // MINUTE)
    counts, moments = [0] * QUARTERS, [0] * MINUTES
    for one in shared[:MOST_TIMETABLES]:
        occurs = _occurrences(one.cron_expr, one.timezone, since)
        for minute, due in occurs.minutes:
            if minute in ahead:
                counts[minute // (QUARTER // MINUTE)] += due * one.schedules
        for minute in occurs.full_minutes:
            if minute in ahead:
                moments[minute] += one.schedules
    left_out = sum(one.schedules for one in shared[MOST_TIMETABLES:])
    known = sum(one.schedules for one in shared) - left_out
    return Load(since, tuple(counts), tuple(moments), limit, known, left_out)


def end_of_day_ahead(now: datetime) -> datetime:
    """Return when the 24 hours are over that begin with the next minute."""
    return now - (now - _EPOCH) % MINUTE + MINUTE + DAY


def quarter_of(moment: datetime) -> datetime:
    """Return the beginning of a moment's quarter of an hour."""
    return moment - (moment - _EPOCH) % QUARTER


class Occurrences(NamedTuple):
    """In which minutes a timetable occurs and how often, and at the beginning of which."""

    minutes: tuple[tuple[int, int], ...] = ()
    full_minutes: tuple[int, ...] = ()


@lru_cache(maxsize=2 * MOST_TIMETABLES)
def _occurrences(cron_expr: str, timezone: str, since: datetime) -> Occurrences:
    try:
        timetable = zoned_timetable(cron_expr, timezone)
    except TenantcronError:
        return Occurrences()  # such a schedule fires nothing either
    if timetable.interval is not None:
        return _multiples(timetable.interval, since)
    ahead = timetable.upcoming(since - _MOMENT)
    end = since + MINUTES * MINUTE
    spans = [one - since for one in takewhile(lambda one: one < end, ahead)]
    minutes = Counter(span // MINUTE for span in spans)
    return Occurrences(
        tuple(minutes.items()), tuple(span // MINUTE for span in spans if not span % MINUTE)
    )


def _multiples(interval: timedelta, since: datetime) -> Occurrences:
    """Divide whole seconds: an interval of a few occurs too often to be followed."""
    step, begin = int(interval.total_seconds()), int(since.timestamp())
    minute = int(MINUTE.total_seconds())
    # How many multiples lie before the beginning of each minute, and before the end.
    before = [-(-(begin + minute * index) // step) for index in range(MINUTES + 1)]
    minutes = ((index, later - earlier) for index, (earlier, later) in enumerate(pairwise(before)))
    common = lcm(step, minute)
    times = range(-(-begin // common) * common, begin + minute * MINUTES, common)
    return Occurrences(
        tuple(one for one in minutes if one[1]), tuple((time - begin) // minute for time in times)
    )


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

    @property
    def top(self) -> int:
        """What the height of the strip stands for."""
        return max(1, *(sum(one.values()) for one in self.counts))

    @property
    def line(self) -> float:
        """Where the top is drawn: the thinnest bars need some room above it."""
        return LEAST * (len(ENDED) - 1)

    def bars(self) -> Iterator[Bar]:
        """Yield a bar for each quarter and outcome, stacked."""
        for index, counts in enumerate(self.counts):
            ground = float(HEIGHT)
            for state in ENDED:
                if number := counts.get(state, 0):
                    height = max(number / self.top * (HEIGHT - self.line), LEAST)
                    ground -= height
                    title = f"{_span(self.since + QUARTER * index)}: {number:,} {state.lower()}"
                    yield Bar(index * STEP, ground, height, state, title)

    def hours(self) -> list[Hour]:
        """Return the same by hours."""
        hours = _by_hours(self.since, self.counts)
        return [
            Hour(hour, tuple(sum(one.get(state, 0) for one in some) for state in ENDED))
            for hour, some in hours.items()
            if any(some)
        ]


def timeline(outcomes: Iterable[Outcomes], now: datetime, most: int) -> Timeline:
    """Lay what has ended along the 24 hours that end now."""
    since = quarter_of(now) - DAY
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
    times = ((index, since + QUARTER * index) for index in range(QUARTERS - 4))
    return [
        Mark(index * STEP, f"{time:%H:%M}")
        for index, time in times
        if time.hour % 3 == 0 and time.minute == 0
    ]


def _by_hours(since: datetime, quarters: Sequence[_Quarter]) -> dict[datetime, list[_Quarter]]:
    found: dict[datetime, list[_Quarter]] = {}
    for index, one in enumerate(quarters):
        found.setdefault((since + QUARTER * index).replace(minute=0), []).append(one)
    return found


def _span(since: datetime) -> str:
    return f"{since:%H:%M} to {since + QUARTER:%H:%M} UTC"
