"""The charts of the overview: the load of the next 24 hours, the outcomes of the last 24 hours.

The load is computed per timetable, not per schedule, and intervals are computed by division. The
occurrences of a timetable are cached until the next quarter of an hour.
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
# One more, because 24 hours that begin within a quarter end within another one.
QUARTERS: Final = DAY // QUARTER + 1
MINUTE: Final = timedelta(minutes=1)
MINUTES: Final = QUARTERS * (QUARTER // MINUTE)
HEIGHT: Final = 88
# The minimum height of a bar, so that small counts stay visible.
LEAST: Final = 3.0
STEP: Final = 10
WIDTH: Final = STEP * QUARTERS
# Limits the number of timetables, most common first; the page shows what is omitted.
MOST_TIMETABLES: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Quarter = TypeVar("_Quarter")
_MOMENT: Final = timedelta(microseconds=1)
# The final states in stacking order, from the bottom; the most important one is at the top.
ENDED: Final = (State.SUCCEEDED, State.SKIPPED, State.CANCELLED, State.MISSED, State.DEAD)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart, in SVG units."""

    x: int
    y: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A time label below a chart."""

    x: int
    text: str


@dataclass(frozen=True, slots=True)
class Hour:
    """A row of the table with the data of a chart."""

    since: datetime
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OverloadedMinute:
    """A minute in which more executions are due than may run at once."""

    at: datetime
    due: int


@dataclass(frozen=True, slots=True)
class Load:
    """The executions due in the next 24 hours, per quarter and per full minute, with the limit.

    The limit applies to concurrent executions, so a quarter is measured by its busiest minute: a
    hundred executions that start together exceed a limit, a hundred one after another do not. Cron
    fires at full minutes, so executions that collide are due in the same minute.
    """

    since: datetime
    counts: tuple[int, ...]
    moments: tuple[int, ...]
    limit: int
    # The number of schedules that are included, and of those over the limit.
    schedules: int
    omitted: int

    @property
    def total(self) -> int:
        """The number of executions that are due."""
        return sum(self.counts)

    @property
    def peaks(self) -> tuple[int, ...]:
        """The executions due in the busiest minute of each quarter."""
        size = QUARTER // MINUTE
        return tuple(max(self.moments[at : at + size]) for at in range(0, len(self.moments), size))

    @property
    def top(self) -> int:
        """The number of executions at the top of the chart."""
        return max(*self.peaks, self.limit, 1)

    @property
    def line(self) -> float:
        """The y coordinate of the limit."""
        return HEIGHT - self.limit / self.top * HEIGHT

    @property
    def minutes_over(self) -> int:
        """The number of minutes in which more executions are due than may run at once."""
        return sum(due > self.limit for due in self.moments)

    def bars(self) -> Iterator[Bar]:
        """Yield the bars of the busiest minute of each quarter, split at the limit."""
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
        return f"{when}: {due:,} due, {peak:,} in the busiest minute{over}"

    def _bar(self, index: int, number: int, ground: float, kind: str, title: str) -> Bar:
        height = max(number / self.top * HEIGHT, LEAST)
        return Bar(index * STEP, ground - height, height, kind, title)

    def overloaded(self, most: int = 3) -> list[OverloadedMinute]:
        """Return the busiest minutes over the limit, ordered by time."""
        over = [
            OverloadedMinute(self.since + MINUTE * index, due)
            for index, due in enumerate(self.moments)
            if due > self.limit
        ]
        busiest = sorted(over, key=lambda minute: minute.due, reverse=True)[:most]
        return sorted(busiest, key=lambda minute: minute.at)

    def hours(self) -> list[Hour]:
        """Return the data by hour: executions due, and those in the busiest minute."""
        due, peaks = _by_hours(self.since, self.counts), _by_hours(self.since, self.peaks)
        return [
            Hour(hour, (sum(some), max(peaks[hour]))) for hour, some in due.items() if any(some)
        ]


def compute_load(shared: Sequence[SharedTimetable], now: datetime, limit: int) -> Load:
    """Compute the load of the 24 hours that begin with the next minute."""
    since, until = quarter_of(now), end_of_day_ahead(now)
    ahead = range((until - DAY - since) // MINUTE, (until - since) // MINUTE)
    counts, moments = [0] * QUARTERS, [0] * MINUTES
    for timetable in shared[:MOST_TIMETABLES]:
        occurs = _occurrences(timetable.cron_expr, timetable.timezone, since)
        for minute, due in occurs.minutes:
            if minute in ahead:
                counts[minute // (QUARTER // MINUTE)] += due * timetable.schedules
        for minute in occurs.full_minutes:
            if minute in ahead:
                moments[minute] += timetable.schedules
    omitted = sum(timetable.schedules for timetable in shared[MOST_TIMETABLES:])
    known = sum(timetable.schedules for timetable in shared) - omitted
    return Load(since, tuple(counts), tuple(moments), limit, known, omitted)


def end_of_day_ahead(now: datetime) -> datetime:
    """Return the end of the 24 hours that begin with the next minute."""
    return now - (now - _EPOCH) % MINUTE + MINUTE + DAY


def quarter_of(moment: datetime) -> datetime:
    """Return the start of the quarter of an hour of a time."""
    return moment - (moment - _EPOCH) % QUARTER


class Occurrences(NamedTuple):
    """The minutes of a timetable with their number of occurrences, and its full minutes."""

    minutes: tuple[tuple[int, int], ...] = ()
    full_minutes: tuple[int, ...] = ()


@lru_cache(maxsize=2 * MOST_TIMETABLES)
def _occurrences(cron_expr: str, timezone: str, since: datetime) -> Occurrences:
    try:
        timetable = zoned_timetable(cron_expr, timezone)
    except TenantcronError:
        return Occurrences()  # a schedule with such a timetable never fires
    if timetable.interval is not None:
        return _multiples(timetable.interval, since)
    ahead = timetable.upcoming(since - _MOMENT)
    end = since + MINUTES * MINUTE
    spans = [time - since for time in takewhile(lambda time: time < end, ahead)]
    minutes = Counter(span // MINUTE for span in spans)
    return Occurrences(
        tuple(minutes.items()), tuple(span // MINUTE for span in spans if not span % MINUTE)
    )


def _multiples(interval: timedelta, since: datetime) -> Occurrences:
    """Compute the occurrences by division: a short interval has too many to enumerate."""
    step, begin = int(interval.total_seconds()), int(since.timestamp())
    minute = int(MINUTE.total_seconds())
    # The number of multiples before the start of each minute, and before the end.
    before = [-(-(begin + minute * index) // step) for index in range(MINUTES + 1)]
    minutes = ((index, later - earlier) for index, (earlier, later) in enumerate(pairwise(before)))
    common = lcm(step, minute)
    times = range(-(-begin // common) * common, begin + minute * MINUTES, common)
    return Occurrences(
        tuple(counted for counted in minutes if counted[1]),
        tuple((time - begin) // minute for time in times),
    )


@dataclass(frozen=True, slots=True)
class Timeline:
    """The finished executions by quarter of an hour and state."""

    since: datetime
    counts: tuple[Mapping[State, int], ...]
    # Whether only the newest executions were counted.
    is_cut: bool

    @property
    def totals(self) -> dict[State, int]:
        """The number of finished executions by state."""
        return {state: sum(quarter.get(state, 0) for quarter in self.counts) for state in ENDED}

    @property
    def top(self) -> int:
        """The number of executions at the top of the chart."""
        return max(1, *(sum(quarter.values()) for quarter in self.counts))

    @property
    def line(self) -> float:
        """The y coordinate of the top; bars of minimum height need room above it."""
        return LEAST * (len(ENDED) - 1)

    def bars(self) -> Iterator[Bar]:
        """Yield stacked bars for each quarter and state."""
        for index, counts in enumerate(self.counts):
            ground = float(HEIGHT)
            for state in ENDED:
                if number := counts.get(state, 0):
                    height = max(number / self.top * (HEIGHT - self.line), LEAST)
                    ground -= height
                    title = f"{_span(self.since + QUARTER * index)}: {number:,} {state.lower()}"
                    yield Bar(index * STEP, ground, height, state, title)

    def hours(self) -> list[Hour]:
        """Return the data by hour."""
        hours = _by_hours(self.since, self.counts)
        return [
            Hour(hour, tuple(sum(counts.get(state, 0) for counts in quarters) for state in ENDED))
            for hour, quarters in hours.items()
            if any(quarters)
        ]


def timeline(outcomes: Iterable[Outcomes], now: datetime, most: int) -> Timeline:
    """Return the finished executions of the last 24 hours by quarter."""
    since = quarter_of(now) - DAY
    counts: list[Counter[State]] = [Counter() for _ in range(QUARTERS)]
    total = 0
    for outcome in outcomes:
        index = (outcome.since - since) // QUARTER
        total += outcome.number
        if 0 <= index < QUARTERS:
            counts[index][outcome.state] += outcome.number
    return Timeline(since, tuple(counts), total >= most)


def marks(since: datetime) -> list[Mark]:
    """Return a label for every third full hour of a chart."""
    times = ((index, since + QUARTER * index) for index in range(QUARTERS - 4))
    return [
        Mark(index * STEP, f"{time:%H:%M}")
        for index, time in times
        if time.hour % 3 == 0 and time.minute == 0
    ]


def _by_hours(since: datetime, quarters: Sequence[_Quarter]) -> dict[datetime, list[_Quarter]]:
    found: dict[datetime, list[_Quarter]] = {}
    for index, quarter in enumerate(quarters):
        found.setdefault((since + QUARTER * index).replace(minute=0), []).append(quarter)
    return found


def _span(since: datetime) -> str:
    return f"{since:%H:%M} to {since + QUARTER:%H:%M} UTC"
