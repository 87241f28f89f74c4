"""Timetables, times and states as text for people."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, assert_never

from tenantcron.core.durations import format_duration
from tenantcron.core.errors import TenantcronError
from tenantcron.cron.macros import MACROS
from tenantcron.cron.timetable import CronTimetable, IntervalTimetable, SingleTimetable
from tenantcron.schedules.timetable import read_timetable
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.tasks import TaskState

# A sign for each state, so that colour is never the only indication.
SIGNS: Final = {
    TaskState.WAITING: "◷",
    State.PENDING: "…",
    State.RUNNING: "▶",
    State.SUCCEEDED: "✓",
    State.RETRYING: "↻",
    State.DEAD: "✕",
    State.SKIPPED: "»",
    State.MISSED: "○",
    State.CANCELLED: "■",
}
# Shown for an absent value.
NOTHING: Final = "\N{EN DASH}"
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_ALL_TIMES: Final = 6
_STEP: Final = re.compile(r"\*/(\d+)")
_RANGE: Final = re.compile(r"(\w+)-(\w+)")
_NTH: Final = re.compile(r"(\w+)#(\d)")
_LAST: Final = re.compile(r"([0-7]|[a-z]{3})L", re.IGNORECASE)
_BEFORE_LAST: Final = re.compile(r"L-(\d+)", re.IGNORECASE)
_NEAREST: Final = re.compile(r"(\d+)W", re.IGNORECASE)


def timetable_in_words(expression: str) -> str:
    """Describe a timetable; parts without a simpler description are shown as they are."""
    timetable = read_timetable(expression)
    if isinstance(timetable, CronTimetable):
        return _cron(timetable)
    if isinstance(timetable, IntervalTimetable):
        return f"every {_interval(timetable.interval)}"
    if isinstance(timetable, SingleTimetable):
        return f"once, on {moment(timetable.instant)}"
    assert_never(timetable)


def readable(expression: str) -> str:
    """Describe a timetable; return the expression if it cannot be parsed."""
    try:
        return timetable_in_words(expression)
    except TenantcronError:
        return expression


def _interval(span: timedelta) -> str:
    parts, seconds = [], int(span.total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return _listed(parts).removeprefix("1 ") if len(parts) == 1 else _listed(parts)


def _cron(timetable: CronTimetable) -> str:
    fields = MACROS.get(timetable.expression.lower(), timetable.expression).split()
    _, _, day, month, weekday = fields
    times = _times(timetable.minutes, timetable.hours)
    days = _days(day, weekday, either=timetable.restricts_both_days)
    days = days or ("" if times.startswith("every") else "every day")
    return ", ".join(part for part in (times, days, _months(month)) if part)


def _times(minutes: Sequence[int], hours: Sequence[int]) -> str:
    if len(hours) == 24:
        return _hourly(minutes)
    if len(minutes) * len(hours) <= _ALL_TIMES:
        return f"at {_listed(f'{hour:02}:{minute:02}' for hour in hours for minute in minutes)}"
    step, every = _even_step(minutes, 60), _even_step(hours, 24)
    if every and len(minutes) == 1:
        return f"every {every} hours from {hours[0]:02}:{minutes[0]:02}"
    past = (
        f"every {step} minutes" if step else f"at {_listed(f':{minute:02}' for minute in minutes)}"
    )
    if hours[-1] - hours[0] + 1 == len(hours):
        return f"{past} from {hours[0]:02}:{minutes[0]:02} to {hours[-1]:02}:{minutes[-1]:02}"
    return f"{past} in the hours {_listed(f'{hour:02}' for hour in hours)}"


def _hourly(minutes: Sequence[int]) -> str:
    if step := _even_step(minutes, 60):
        return "every minute" if step == 1 else f"every {step} minutes"
    if tuple(minutes) == (0,):
        return "every hour, on the hour"
    return f"every hour, at {_listed(f'{minute:02}' for minute in minutes)} minutes past"


def _even_step(values: Sequence[int], size: int) -> int | None:
    """Return the step of values that divide the range evenly; None if they do not."""
    if len(values) < 2 or size % len(values):
        return None
    step = size // len(values)
    return step if tuple(values) == tuple(range(0, size, step)) else None


def _days(day: str, weekday: str, *, either: bool) -> str:
    """Describe the days; if both fields are restricted, either or both must match."""
    numbers = "" if day in "*?" else _each(day, _day)
    names = "" if weekday in "*?" else _each(weekday, _weekday)
    if numbers and names:
        return f"on {numbers} or on {names}" if either else f"on {numbers} if that is {names}"
    return f"on {numbers or names}" if numbers or names else ""


def _months(month: str) -> str:
    return "" if month == "*" else f"in {_each(month, _month)}"


def _each(text: str, word: "_FieldWords") -> str:
    return _listed(_term(term, word) for term in text.split(","))


class _FieldWords:
    """The names of the values of a cron field."""

    def __init__(self, names: Sequence[str], first: int) -> None:
        self.names, self.first = names, first

    def __call__(self, text: str) -> str:
        if text.isdigit():
            number = int(text)
            if not self.names:
                return f"the {ordinal(number)}"
            return self.names[(number - self.first) % len(self.names)]
        found = [name for name in self.names if name.lower().startswith(text.lower())]
        return found[0] if found else text

    def every(self, step: int) -> str:
        """Describe `*/step`; in the day-of-month field it restarts each month."""
        return _listed(self.names[::step]) if self.names else f"every {ordinal(step)} day"


_day = _FieldWords((), 1)
_weekday = _FieldWords(_WEEKDAYS, 0)
_month = _FieldWords(_MONTHS, 1)


def _term(term: str, word: _FieldWords) -> str:
    if found := _STEP.fullmatch(term):
        return word.every(int(found[1]))
    # Before ranges: `L-3` looks like one.
    if last := _last_term(term, word):
        return last
    if found := _RANGE.fullmatch(term):
        return f"{word(found[1])} to {word(found[2])}"
    if found := _NTH.fullmatch(term):
        return f"the {ordinal(int(found[2]))} {word(found[1])}"
    return word(term)


def _last_term(term: str, word: _FieldWords) -> str | None:
    if term.upper() in ("L", "LW"):
        return "the last day of the month" if len(term) == 1 else "the last working day"
    if found := _BEFORE_LAST.fullmatch(term):
        return f"the {ordinal(int(found[1]))} day before the last of the month"
    if found := _LAST.fullmatch(term):
        return f"the last {word(found[1])}"
    if found := _NEAREST.fullmatch(term):
        return f"the working day nearest to the {ordinal(int(found[1]))}"
    return None


def ordinal(number: int) -> str:
    """Format an ordinal number: 1st, 2nd."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if 10 < number % 100 < 14 else endings.get(number % 10, "th")
    return f"{number}{ending}"


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def moment(time: datetime | None) -> str:
    """Format a time in UTC."""
    return NOTHING if time is None else local_moment(time.astimezone(UTC))


def local_moment(time: datetime) -> str:
    """Format a time in its own time zone, always with seconds: times in a list stay comparable."""
    return f"{time:%a %Y-%m-%d %H:%M:%S %Z}"


def distance(span: timedelta) -> str:
    """Format a distance in its two largest units."""
    seconds = int(abs(span.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60))
    parts = []
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def duration(span: timedelta) -> str:
    """Format a duration."""
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else format_duration(span)


def sentence(text: str) -> str:
    """Capitalise the first letter."""
    return text[:1].upper() + text[1:]


def number(count: int) -> str:
    """Format a number with thousands separators."""
    return f"{count:,}"
