"""What the harness did and when, and what it found wrong: shared by whoever breaks and checks."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import NamedTuple

_SHOWN = 5
# A statement that began before a change may still see what was before it.
_SLACK = timedelta(seconds=1)


@dataclass(slots=True)
class Change:
    """A value that may hold since one moment, and holds for certain since another, if ever."""

    begun: datetime
    value: int
    done: datetime | None = None


class Limits:
    """The limits over time: overall under None, of every tenant under *, and by tenant."""

    def __init__(self) -> None:
        self._changes: defaultdict[str | None, list[Change]] = defaultdict(list)

    def begin(self, of: str | None, value: int) -> Change:
        """Take note of a change that is about to be made: it may be seen before it is done."""
        change = Change(now(), value)
        self._changes[of].append(change)
        return change

    def highest(self, of: str | None, at: datetime) -> int | None:
        """Return the highest value that may have been in force at a moment; None: none was said."""
        changes = tuple(self._changes.get(of, ()))
        held = (
            one.value
            for place, one in enumerate(changes)
            if one.begun - _SLACK <= at and not _is_over(changes[place + 1 :], at)
        )
        return max(held, default=None)


def _is_over(later: Iterable[Change], at: datetime) -> bool:
    """Whether a later change was done for certain."""
    return any(one.done is not None and one.done + _SLACK < at for one in later)


class Span(NamedTuple):
    """A tenant that was suspended, for certain."""

    tenant: str
    since: datetime
    until: datetime


class Outage(NamedTuple):
    """A time in which a database could not be reached, by all or by the scheduler in one seat."""

    name: str
    since: datetime
    # When it could be reached again, and within how many seconds work has to continue then.
    back: datetime
    seat: str | None = None
    within: float = 10.0


class Gap(NamedTuple):
    """A time whose commits are gone: the standby that was promoted had not received them."""

    since: datetime
    # When the new primary was there; deliveries of the old one may end later.
    until: datetime


@dataclass(slots=True)
class Life:
    """A scheduler that is not killed: since when it runs, until when, and whether it hears."""

    since: datetime
    hears: bool
    until: datetime | None = None

    def lasts(self, since: datetime, until: datetime) -> bool:
        """Whether it ran all the time between two moments."""
        return self.since <= since and (self.until is None or until <= self.until)


@dataclass(slots=True)
class Journal:
    """All that was done to the product."""

    lines: list[str] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    limits: Limits = field(default_factory=Limits)
    suspended: list[Span] = field(default_factory=list)
    # Clock schedules whose cursors were put back to their beginning, by tenant and name.
    put_back: set[tuple[str, str]] = field(default_factory=set)
    # Processes that were struck in any way, and since when.
    struck_pids: dict[int, datetime] = field(default_factory=dict)
    # Moments at which something was wrong for everybody.
    bad_times: list[tuple[datetime, datetime]] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    # Schedulers with a seat, by process.
    lives: dict[int, Life] = field(default_factory=dict)
    # Deliveries that were made again because the primary that had recorded them is gone.
    repeats: int = 0
    kills: int = 0

    def note(self, fault: str, what: str) -> None:
        """Take note of a fault that struck."""
        self.struck[fault] += 1
        self.lines.append(f"{now():%H:%M:%S.%f} {fault}: {what}")

    def bad_for(self, seconds: float, before: float = 1.0) -> None:
        """Take note of a time in which anybody may lose anything."""
        moment = now()
        before_it, after_it = timedelta(seconds=before), timedelta(seconds=seconds)
        self.bad_times.append((moment - before_it, moment + after_it))

    def bad_since(self, moment: datetime, seconds: float) -> None:
        """Take note of a time that began at a moment and ends so many seconds from now."""
        self.bad_for(seconds, before=(now() - moment).total_seconds() + 1.0)

    def is_bad(self, since: datetime, until: datetime) -> bool:
        """Whether something was wrong for everybody at any time between two moments."""
        return any(begun <= until and since <= over for begun, over in self.bad_times)

    def is_in_gap(self, moment: datetime, after: timedelta = timedelta(0)) -> bool:
        """Whether what was done at a moment, or a while before it, may be lost with a primary."""
        return any(gap.since <= moment <= gap.until + after for gap in self.gaps)


@dataclass(slots=True)
class Findings:
    """What is wrong, by kind; of each kind the first few are kept in words."""

    number: Counter[str] = field(default_factory=Counter)
    words: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    looked: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def look(self, kind: str, number: int = 1) -> None:
        """Count what a check has looked at."""
        self.looked[kind] += number

    def add(self, kind: str, words: str) -> None:
        """Take note of something wrong."""
        with self._lock:
            self.number[kind] += 1
            if len(self.words[kind]) < _SHOWN:
                self.words[kind].append(words)

    @property
    def any(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.number.total())

    def told(self) -> Iterator[str]:
        """Put all of it into lines."""
        for kind, words in self.words.items():
            yield f"{kind}: {self.number[kind]}"
            yield from (f"  {one}" for one in words)


def now() -> datetime:
    """Return the time; the harness and the server are on one machine."""
    return datetime.now(UTC)
