"""What the harness did and when, and its findings: shared by faults and checks."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import NamedTuple

_SHOWN = 5
# A statement that began before a change may still see the old value.
_SLACK = timedelta(seconds=1)


@dataclass(slots=True)
class Change:
    """A value that may be in force from one moment, and certainly is from another, if ever."""

    begun: datetime
    value: int
    done: datetime | None = None


class Limits:
    """The limits over time: overall under None, per tenant under *, and by tenant."""

    def __init__(self) -> None:
        self._changes: defaultdict[str | None, list[Change]] = defaultdict(list)

    def begin(self, of: str | None, value: int) -> Change:
        """Record a change before it is made: it may take effect before it is confirmed."""
        change = Change(now(), value)
        self._changes[of].append(change)
        return change

    def highest(self, of: str | None, at: datetime) -> int | None:
        """Return the highest value that may have been in force then; None if none was set."""
        changes = tuple(self._changes.get(of, ()))
        held = (
            change.value
            for index, change in enumerate(changes)
            if change.begun - _SLACK <= at and not _is_over(changes[index + 1 :], at)
        )
        return max(held, default=None)


def _is_over(later: Iterable[Change], at: datetime) -> bool:
    """Whether a later change was certainly in force."""
    return any(change.done is not None and change.done + _SLACK < at for change in later)


class Span(NamedTuple):
    """A time in which a tenant was certainly suspended."""

    tenant: str
    since: datetime
    until: datetime


class Outage(NamedTuple):
    """A time in which the database was unreachable, for all or for one instance."""

    name: str
    since: datetime
    # When it was reachable again, and within how many seconds work has to continue then.
    back: datetime
    instance: str | None = None
    within: float = 10.0


class Gap(NamedTuple):
    """A time whose commits are lost: the promoted standby had not received them."""

    since: datetime
    # When the new primary was available; deliveries of the old one may end later.
    until: datetime


@dataclass(slots=True)
class Life:
    """The lifetime of a supervised scheduler, and whether it receives notifications."""

    since: datetime
    is_notified: bool
    until: datetime | None = None

    def lasts(self, since: datetime, until: datetime) -> bool:
        """Whether it ran all the time between two moments."""
        return self.since <= since and (self.until is None or until <= self.until)


@dataclass(slots=True)
class Journal:
    """All faults that struck."""

    lines: list[str] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    limits: Limits = field(default_factory=Limits)
    suspended: list[Span] = field(default_factory=list)
    # Clock schedules whose cursors were set back to their start, by tenant and name.
    rewound: set[tuple[str, str]] = field(default_factory=set)
    # Processes that were struck in any way, and when.
    struck_pids: dict[int, datetime] = field(default_factory=dict)
    # Times at which all schedulers were affected.
    bad_times: list[tuple[datetime, datetime]] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    # Supervised schedulers, by process id.
    lives: dict[int, Life] = field(default_factory=dict)
    # Deliveries that were repeated because the primary that had recorded them is lost.
    repeats: int = 0
    kills: int = 0

    def note(self, fault: str, what: str) -> None:
        """Record a fault that struck."""
        self.struck[fault] += 1
        self.lines.append(f"{now():%H:%M:%S.%f} {fault}: {what}")

    def bad_for(self, seconds: float, before: float = 1.0) -> None:
        """Record a time in which any scheduler may lose anything."""
        moment = now()
        before_it, after_it = timedelta(seconds=before), timedelta(seconds=seconds)
        self.bad_times.append((moment - before_it, moment + after_it))

    def bad_since(self, moment: datetime, seconds: float) -> None:
        """Record a time that began at a moment and ends this many seconds from now."""
        self.bad_for(seconds, before=(now() - moment).total_seconds() + 1.0)

    def is_bad(self, since: datetime, until: datetime) -> bool:
        """Whether all schedulers were affected at any time between two moments."""
        return any(begun <= until and since <= over for begun, over in self.bad_times)

    def is_in_gap(self, moment: datetime, after: timedelta = timedelta(0)) -> bool:
        """Whether commits of a moment, or of a while before it, may be lost with a primary."""
        return any(gap.since <= moment <= gap.until + after for gap in self.gaps)


@dataclass(slots=True)
class Findings:
    """Findings by check; the first few of each are kept as messages."""

    counts: Counter[str] = field(default_factory=Counter)
    messages: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    examined: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def examine(self, kind: str, number: int = 1) -> None:
        """Count the items that a check has examined."""
        self.examined[kind] += number

    def add(self, kind: str, message: str) -> None:
        """Add a finding."""
        with self._lock:
            self.counts[kind] += 1
            if len(self.messages[kind]) < _SHOWN:
                self.messages[kind].append(message)

    @property
    def any(self) -> bool:
        """Whether there are findings."""
        return bool(self.counts.total())

    def lines(self) -> Iterator[str]:
        """Yield all findings as lines."""
        for kind, messages in self.messages.items():
            yield f"{kind}: {self.counts[kind]}"
            yield from (f"  {message}" for message in messages)


def now() -> datetime:
    """Return the time; the harness and the server are on one machine."""
    return datetime.now(UTC)
