"""Timetables that begin with `@`: the macros, `@every <duration>` and `@at <time>`."""

from datetime import datetime, timedelta

from tenantcron.core.durations import DurationError, parse_duration
from tenantcron.core.suggest import close_match
from tenantcron.cron.errors import CronError
from tenantcron.cron.expression import read_expression
from tenantcron.cron.instants import InstantError, read_instant
from tenantcron.cron.timetable import IntervalTimetable, SingleTimetable, Timetable

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
EVERY = "@every"
AT = "@at"

_TIME_HINT = "write for example @at 2026-12-01T09:00:00Z or @at 2026-12-01T09:00:00+01:00"


def read_macro(words: list[str]) -> Timetable:
    """Read a timetable whose first word begins with `@`."""
    word, rest = words[0], " ".join(words[1:])
    name = word.lower()
    if name == EVERY:
        return IntervalTimetable(f"{EVERY} {rest}", _interval(rest))
    if name == AT:
        return SingleTimetable(f"{AT} {rest}", _instant(rest))
    if name not in MACROS:
        raise _unknown(word, name)
    if rest:
        raise CronError(f"{word} takes no argument, got {rest!r}", f"write {word}")
    return read_expression(name, MACROS[name].split())


def _unknown(word: str, name: str) -> CronError:
    if name == "@reboot":
        problem = "@reboot is not supported: schedules do not depend on when a replica starts"
        return CronError(problem, "write a time, or start the work from a deploy step")
    meant = close_match(name, [*MACROS, EVERY, AT])
    hint = f"did you mean {meant}?" if meant else f"use one of {', '.join([*MACROS, EVERY, AT])}"
    return CronError(f"{word} is not a timetable", hint)


def _interval(text: str) -> timedelta:
    try:
        interval = parse_duration(text)
    except DurationError as error:
        raise CronError(f"{EVERY}: {error}", f"write for example {EVERY} 45m") from None
    if not interval:
        raise CronError(f"{EVERY}: the interval {text!r} is zero", "write 1s or more")
    return interval


def _instant(text: str) -> datetime:
    if " " in text:
        raise CronError(f"{AT}: {text!r} contains a space", _TIME_HINT)
    try:
        instant = read_instant(text)
    except InstantError as error:
        raise CronError(f"{AT}: {text!r} {error}", _TIME_HINT) from None
    if instant.tzinfo is None:
        raise CronError(f"{AT}: {text!r} has no UTC offset", _TIME_HINT)
    return instant
