"""A model of the guarantees of the scheduler, short enough to be read as its specification.

It knows nothing about cron expressions, statements and rows: a timetable is an interval since 1970.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tenantcron.store.steps.claiming import Lease

FOREVER = datetime.max.replace(tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Name = tuple[str, str]  # tenant and schedule


@dataclass(frozen=True, slots=True)
class Timetable:
    """Multiples of an interval; `text` is the equivalent text of a manifest."""

    text: str
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
    """A schedule in its manifest; without a timetable it is disabled."""

    id: UUID
    timetable: Timetable | None
    since: datetime


@dataclass(slots=True)
class Cursor:
    """A schedule in the scheduler: all occurrences up to `after` are accounted for."""

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
    """The occurrences that are recorded, exactly once each, and the leases with their end."""

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
        """A removed schedule has no due occurrences; an edit never fires past ones again."""
        cursors = {}
        for declared in self.declared.values():
            before = self.cursors.get(declared.id, Cursor(None, declared.since))
            after = max(declared.since, before.after)
            cursors[declared.id] = Cursor(declared.timetable, after, before.paused_until)
        self.cursors = cursors

    def fire(self, now: datetime) -> None:
        """Every due occurrence is recorded, even of paused and suspended schedules."""
        for schedule in self.cursors:
            self._account(schedule, now)

    def resume(self, schedule: UUID, now: datetime) -> None:
        """Occurrences during the pause are recorded, so none is fired later."""
        until, self.cursors[schedule].paused_until = self.cursors[schedule].paused_until, None
        self._account(schedule, min(now, (until or now) - timedelta.resolution))

    def _account(self, schedule: UUID, until: datetime) -> None:
        cursor = self.cursors[schedule]
        come = cursor.timetable.between(cursor.after, until) if cursor.timetable else []
        self.accounted[schedule] += come
        cursor.after = max([cursor.after, *come])

    def end(self, lease: Lease) -> bool:
        """Only the holder of the lease can end it; return whether the lease was held."""
        return self.leases.pop(lease, None) is not None

    def expired(self, now: datetime) -> list[Lease]:
        """An expired lease is gone; return those that have expired."""
        return [lease for lease, until in self.leases.items() if until < now]

    def come_back(self, execution: UUID) -> None:
        """A worker that reports the end of an attempt was not killed by it."""
        self.suspicion[execution] = 0

    def lose(self, execution: UUID) -> None:
        """One more attempt was lost; it does not count as an attempt."""
        self.losses[execution] += 1
        self.suspicion[execution] += 1

    def is_killer(self, execution: UUID) -> bool:
        """Lost once among many, once among a few, and three times as the only suspect."""
        return self.suspicion[execution] >= 5

    def retry(self, execution: UUID) -> None:
        """A manual retry clears the losses; a suspect then runs alone."""
        self.losses[execution] = 0
        self.suspicion[execution] = min(self.suspicion[execution], 2)

    def has_room(self, running: Iterable[UUID], another: UUID) -> bool:
        """Eight suspects that were lost once may run together, or a single one lost more often."""
        suspects = [self.suspicion[other] for other in running if self.suspicion[other]]
        if not suspects or not self.suspicion[another]:
            return True
        return len(suspects) < 8 and max(*suspects, self.suspicion[another]) == 1
