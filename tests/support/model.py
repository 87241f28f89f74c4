"""What the scheduler promises, as a model that is short enough to be read as its specification.

It knows nothing of cron expressions, statements and rows: a timetable is an interval since 1970.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tenantcron.store.claiming import Lease

FOREVER = datetime.max.replace(tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Name = tuple[str, str]  # of a schedule: its tenant's and its own


@dataclass(frozen=True, slots=True)
class Timetable:
    """Multiples of an interval; `written` is how a manifest says the same."""

    written: str
    interval: timedelta
    offset: timedelta = timedelta(0)

    def next(self, after: datetime) -> datetime:
        """Return the first occurrence after a moment."""
        begin = _EPOCH + self.offset
        return begin + ((after - begin) // self.interval + 1) * self.interval

    def between(self, after: datetime, until: datetime) -> list[datetime]:
        """Return the occurrences after a moment, up to another."""
        first = self.next(after)
        return [first + n * self.interval for n in range((until - first) // self.interval + 1)]


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as its manifest has it; without a timetable it is disabled."""

    id: UUID
    timetable: Timetable | None
    since: datetime


@dataclass(slots=True)
class Cursor:
    """A schedule as the scheduler has it: nothing up to `after` is owed any more."""

    timetable: Timetable | None
    after: datetime
    # None: it is not paused.
    paused_until: datetime | None = None

    @property
    def next(self) -> datetime | None:
        """The next occurrence."""
        return self.timetable.next(self.after) if self.timetable else None


@dataclass(slots=True)
class Model:
    """Which occurrences are on record, exactly once each, and who holds a lease until when."""

    declared: dict[Name, Declared] = field(default_factory=dict)
    cursors: dict[UUID, Cursor] = field(default_factory=dict)
    accounted: dict[UUID, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    leases: dict[Lease, datetime] = field(default_factory=dict)
    # How often each execution was lost, and how many of its latest attempts in a row.
    losses: Counter[UUID] = field(default_factory=Counter)
    suspicion: Counter[UUID] = field(default_factory=Counter)

    def apply(self, name: Name, schedule: UUID, timetable: Timetable | None, now: datetime) -> None:
        """A new schedule and a new timetable count from the apply; nothing else changes that."""
        live = self.declared.get(name)
        if live is None or (live.id, live.timetable) != (schedule, timetable):
            self.declared[name] = Declared(schedule, timetable, now)

    def refresh(self) -> None:
        """What is declared no more owes nothing; what was settled before an edit stays settled."""
        followed = {}
        for one in self.declared.values():
            before = self.cursors.get(one.id, Cursor(None, one.since))
            after = max(one.since, before.after)
            followed[one.id] = Cursor(one.timetable, after, before.paused_until)
        self.cursors = followed

    def fire(self, now: datetime) -> None:
        """Every occurrence that has come is on record, also of what is paused or suspended."""
        for schedule in self.cursors:
            self._account(schedule, now)

    def resume(self, schedule: UUID, now: datetime) -> None:
        """What came under the pause is on record, so that nothing is fired back."""
        until, self.cursors[schedule].paused_until = self.cursors[schedule].paused_until, None
        self._account(schedule, min(now, (until or now) - timedelta.resolution))

    def _account(self, schedule: UUID, until: datetime) -> None:
        cursor = self.cursors[schedule]
        come = cursor.timetable.between(cursor.after, until) if cursor.timetable else []
        self.accounted[schedule] += come
        cursor.after = max([cursor.after, *come])

    def end(self, lease: Lease) -> bool:
        """Only who holds the lease has a say; return whether that is so."""
        return self.leases.pop(lease, None) is not None

    def expired(self, now: datetime) -> list[Lease]:
        """A lease that has run out is gone; return those that have."""
        return [lease for lease, until in self.leases.items() if until < now]

    def come_back(self, execution: UUID) -> None:
        """A worker that reports how an attempt ended was not killed by it."""
        self.suspicion[execution] = 0

    def lose(self, execution: UUID) -> None:
        """One more attempt was lost; it is no attempt that counts."""
        self.losses[execution] += 1
        self.suspicion[execution] += 1

    def is_killer(self, execution: UUID) -> bool:
        """Lost once among others, once among a few, and three times as the only suspect."""
        return self.suspicion[execution] >= 5

    def retry(self, execution: UUID) -> None:
        """Who is retried by an operator has a clean record, and runs alone if it was suspected."""
        self.losses[execution] = 0
        self.suspicion[execution] = min(self.suspicion[execution], 2)

    def has_room(self, running: Iterable[UUID], another: UUID) -> bool:
        """Eight that were lost once may run beside each other, or a single one lost more often."""
        suspects = [self.suspicion[one] for one in running if self.suspicion[one]]
        if not suspects or not self.suspicion[another]:
            return True
        return len(suspects) < 8 and max(*suspects, self.suspicion[another]) == 1
