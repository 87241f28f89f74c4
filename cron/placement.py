"""Map the occurrences of a cron timetable to instants of a zone.

A timetable yields wall-clock values; the clock of a zone skips some values and shows some twice.
The expression alone decides which of two rules applies:

1. **As the clock shows** (the hour field begins with `*`). Occurrences are all instants at which
   the clock shows a matching value. A skipped value does not occur; a repeated one occurs twice.
2. **At a fixed time** (all others). Every matching value occurs once. A skipped value occurs at
   the transition, the first instant after the gap; a repeated one occurs at its first pass.
   Values that fall on one instant are one occurrence.

How to find the next occurrence after an instant; `here` is the value the clock shows then:

- Shown, usually: the first match after `here`, at its earliest instant in the future. If that
  match is skipped, the search continues from the value at the end of the gap, inclusive.
- Shown, in the first pass of repeated values: a match later in the pass comes first. Without one
  the clock is set back at the transition, and the search continues from the value it shows then,
  inclusive, among instants from the transition on.
- Fixed, usually: the first match after `here`. If it is skipped, the transition is its instant.
- Fixed, in the second pass: the repeated values have all occurred, so the search continues from
  the end of the repeated values, inclusive.

The previous occurrence mirrors each case, and has one more:

- Fixed, exactly at a jump forwards: the skipped values occur at that instant, so not before it, and
  the search continues backwards from the start of the gap.

`previous` is the inverse of `next` on occurrences. Offsets with seconds, shifts of 30 minutes and
skipped or repeated days need no special rule.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

from tenantcron.cron.timetable import CronTimetable
from tenantcron.cron.transitions import instants_of, shows_again, transition_at
from tenantcron.cron.wall_clock import wall_after, wall_before, wall_from


def next_shown(cron: CronTimetable, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first instant after the given one at which the clock shows a match."""
    here = after.astimezone(zone)
    wall = wall_after(cron, here)
    if shows_again(zone, here):
        jump = transition_at(zone, here)
        if wall is None or wall >= jump.old_wall:
            return _earliest_pass(cron, zone, wall_from(cron, jump.new_wall), jump.instant)
    return _earliest_pass(cron, zone, wall, after)


def _earliest_pass(
    cron: CronTimetable, zone: ZoneInfo, wall: datetime | None, after: datetime
) -> datetime | None:
    """Return the value's first pass if it is in the future, else its second; skip gaps."""
    while wall is not None:
        by_old, by_new = instants_of(zone, wall)
        if by_old <= by_new:
            return by_old if by_old > after else by_new
        wall = wall_from(cron, transition_at(zone, wall).new_wall)
    return None


def previous_shown(cron: CronTimetable, zone: ZoneInfo, before: datetime) -> datetime | None:
    """Return the last instant before the given one at which the clock showed a match."""
    here = before.astimezone(zone)
    wall = wall_before(cron, here)
    if here.fold:
        jump = transition_at(zone, here)
        if wall is None or wall < jump.new_wall:
            return _latest_pass(cron, zone, wall_before(cron, jump.old_wall), jump.instant)
    return _latest_pass(cron, zone, wall, before)


def _latest_pass(
    cron: CronTimetable, zone: ZoneInfo, wall: datetime | None, before: datetime
) -> datetime | None:
    """Return the value's second pass if it is in the past, else its first; skip gaps."""
    while wall is not None:
        by_old, by_new = instants_of(zone, wall)
        if by_old <= by_new:
            return by_new if by_new < before else by_old
        wall = wall_before(cron, transition_at(zone, wall).old_wall)
    return None


def next_fixed(cron: CronTimetable, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the instant of the first fixed time after the given instant."""
    here = after.astimezone(zone)
    if here.fold:
        wall = wall_from(cron, transition_at(zone, here).old_wall)
    else:
        wall = wall_after(cron, here)
    return None if wall is None else fixed_instant(zone, wall)


def previous_fixed(cron: CronTimetable, zone: ZoneInfo, before: datetime) -> datetime | None:
    """Return the instant of the last fixed time before the given instant."""
    here = before.astimezone(zone)
    wall = wall_before(cron, transition_at(zone, here).old_wall if here.fold else here)
    while wall is not None:
        found = fixed_instant(zone, wall)
        if found < before:
            return found
        wall = wall_before(cron, transition_at(zone, wall).old_wall)
    return None


def fixed_instant(zone: ZoneInfo, wall: datetime) -> datetime:
    """Return when a wall-clock value occurs as a fixed time."""
    by_old, by_new = instants_of(zone, wall)
    return by_old if by_old <= by_new else transition_at(zone, wall).instant
