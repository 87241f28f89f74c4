"""A walk through real time: what a zone's clock showed, step by step, around a transition.

This code has no notion of folds or gaps. Skipped and repeated values are derived from the walk.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from support.cron_expressions import Meaning

from tenantcron.cron.zones import zone

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)

# Instants with their wall-clock values.
Steps = tuple[tuple[datetime, datetime], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A time range around a transition; zones with offsets in seconds are walked by the second."""

    zone: str
    middle: str
    hours: int = 30
    step: timedelta = MINUTE

    @property
    def begin(self) -> datetime:
        """The first instant of the walk."""
        return self.middle_instant - timedelta(hours=self.hours)

    @property
    def end(self) -> datetime:
        """The last instant of the walk."""
        return self.middle_instant + timedelta(hours=self.hours)

    @property
    def middle_instant(self) -> datetime:
        """The transition, or an instant near it."""
        return datetime.fromisoformat(self.middle).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Walk:
    """The minutes that the clock showed, in real order, and those that it skipped."""

    shown: Steps
    skipped: Steps


WINDOWS = (
    Window("Europe/London", "2026-03-29T01:00"),
    Window("Europe/London", "2026-10-25T01:00"),
    Window("Europe/London", "2050-10-30T01:00"),
    Window("Europe/Dublin", "2026-03-29T01:00"),
    Window("America/New_York", "2026-03-08T07:00"),
    Window("America/New_York", "2026-11-01T06:00"),
    Window("Australia/Lord_Howe", "2026-04-04T15:00"),
    Window("Australia/Lord_Howe", "2026-10-03T15:30"),
    Window("Pacific/Chatham", "2026-04-04T14:00"),
    Window("Pacific/Chatham", "2026-09-26T14:00"),
    Window("Pacific/Apia", "2011-12-30T10:00"),
    Window("Pacific/Kwajalein", "1969-09-30T13:00"),
    Window("Pacific/Kwajalein", "1993-08-21T12:00"),
    Window("Antarctica/Troll", "2026-03-29T01:00"),
    Window("Antarctica/Troll", "2026-10-25T01:00"),
    Window("America/Sao_Paulo", "2018-11-04T03:00"),
    Window("America/Sao_Paulo", "2019-02-17T02:00"),
    Window("Asia/Beirut", "2026-03-28T22:00"),
    Window("Asia/Beirut", "2026-10-24T21:00"),
    Window("Africa/Cairo", "2026-04-23T22:00"),
    Window("Africa/Cairo", "2026-10-29T21:00"),
    Window("America/Havana", "2025-03-09T05:00"),
    Window("America/Havana", "2025-11-02T05:00"),
    Window("America/Santiago", "2026-04-05T03:00"),
    Window("America/Santiago", "2026-09-06T04:00"),
    Window("Africa/Casablanca", "2026-02-15T02:00"),
    Window("Africa/Monrovia", "1972-01-07T00:44:30", hours=3, step=SECOND),
    Window("America/New_York", "1883-11-18T17:00", hours=3, step=SECOND),
    Window("Asia/Manila", "1844-12-31T00:00", hours=30, step=SECOND),
    Window("America/Juneau", "1867-10-18T18:00", hours=40, step=SECOND),
)


@cache
def walk(window: Window) -> Walk:
    """Do the walk."""
    clock = zone(window.zone)
    shown: list[tuple[datetime, datetime]] = []
    skipped: list[tuple[datetime, datetime]] = []
    before: datetime | None = None
    instant = window.begin
    while instant <= window.end:
        wall = instant.astimezone(clock).replace(tzinfo=None, fold=0)
        if before is not None and wall - before > window.step:
            skipped += [(instant, minute) for minute in _minutes_between(before, wall)]
        if wall.second == 0:
            shown.append((instant, wall))
        before = wall
        instant += window.step
    return Walk(tuple(shown), tuple(skipped))


def _minutes_between(before: datetime, after: datetime) -> list[datetime]:
    """Return the minutes that the clock skipped."""
    minutes = []
    minute = before.replace(second=0) + MINUTE
    while minute < after:
        minutes.append(minute)
        minute += MINUTE
    return minutes


def expected_occurrences(meaning: Meaning, window: Window) -> list[datetime]:
    """Return all occurrences in the window by the rule for the expression."""
    taken = walk(window)
    shown = _matching(meaning, taken.shown)
    if meaning.follows_clock:
        return [instant for instant, _ in shown]
    first_pass: dict[datetime, datetime] = {}
    for instant, wall in shown:
        first_pass.setdefault(wall, instant)
    jumped = {instant for instant, _ in _matching(meaning, taken.skipped)}
    return sorted(jumped.union(first_pass.values()))


def _matching(meaning: Meaning, steps: Steps) -> list[tuple[datetime, datetime]]:
    """Return the steps with a matching wall-clock value; each day is checked once."""
    days = {wall.date() for _, wall in steps}
    matching_days = {day for day in days if meaning.matches_day(day)}
    return [
        (instant, wall)
        for instant, wall in steps
        if wall.minute in meaning.minutes
        and wall.hour in meaning.hours
        and wall.date() in matching_days
    ]
