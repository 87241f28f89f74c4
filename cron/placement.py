"""Where the occurrences of a cron timetable lie in a zone.

The protocol. A timetable says wall-clock values; a zone's clock skips some values and shows some
twice. Which of two rules holds is decided by the expression alone:

1. **As the clock shows** (the hour field begins with `*`). Occurrences are all instants at which
   the clock shows a matching value. A skipped value does not occur; a repeated one occurs twice.
2. **At a fixed time** (all others). Every matching value occurs once. A skipped value occurs at
   the transition, the first instant after the gap; a repeated one occurs at its first pass.
   Values that fall on one instant are one occurrence.

How the next one after an instant is found; `here` is the value the clock shows at that instant:

- Shown, usually: the first match after `here`, at its earliest instant that is still to come.
  If that match is skipped, the search goes on from the value at the gap's end, that included.
- Shown, in the first pass of repeated values: a match later in the pass comes first. Without one
  the clock is set back at the transition, and the search goes on from the value it then shows,
  that included, among instants from the transition on.
- Fixed, usually: the first match after `here`. If it is skipped, the transition is its instant.
- Fixed, in the second pass: the repeated values have all occurred, so the search goes on from the
  end of the repeated values, that included.

The previous one before an instant is the mirror image of each, and one case more:

- Fixed, at the very instant of a jump forwards: the skipped values occur at that instant, so not
  before it, and the search goes on backwards from the start of the gap.

The previous of the next is the instant one came from, wherever that was an occurrence. Offsets
with seconds, shifts of 30 minutes and skipped or repeated days need no rule of their own.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

from tenantcron.cron.timetable import CronTimetable
from tenantcron.cron.transitions import instants_of, shows_again, transition_at
from tenantcron.cron.walls import wall_after, wall_before, wall_from


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
    """Return the value's first pass if it is still to come, else its second; skip gaps."""
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
    """Return the value's second pass if it has been, else its first; skip gaps."""
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
