"""Parse five fields to a cron timetable: lex each, expand it, combine the days into masks."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from tenantcron.cron.day_rules import DayRule
from tenantcron.cron.day_terms import day_rule
from tenantcron.cron.errors import CronError
from tenantcron.cron.expand import EVERY_VALUE, expand
from tenantcron.cron.fields import DAY_FIELDS, FIELDS, Field, term_error
from tenantcron.cron.months import is_never, number_masks, weekday_masks
from tenantcron.cron.terms import plain_term
from tenantcron.cron.timetable import CronTimetable

# Used for error messages only, so they are compiled at their first use and not at import.
_HASHED = r"[hrHR](?:[(/].*)?"
_YEAR = r"[0-9]{4}(?:[-,/].*)?"
_ORDER = "minute, hour, day of month, month, weekday"


class FieldReading(NamedTuple):
    """One parsed field: plain terms for croniter, our day rules, and whether it begins with `*`."""

    terms: tuple[str, ...]
    rules: tuple[DayRule, ...]
    starred: bool

    @property
    def text(self) -> str:
        """The plain text for croniter, `*` for a field that has only rules."""
        return EVERY_VALUE if not self.terms or EVERY_VALUE in self.terms else ",".join(self.terms)

    def plain(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """Return the expanded values, or none if the field has only rules."""
        return values if self.terms else ()


def read_expression(expression: str, words: Sequence[str]) -> CronTimetable:
    """Build the timetable of five fields; `expression` is its name."""
    if len(words) != len(FIELDS):
        raise _wrong_count(words)
    readings = [_read_field(field, word) for field, word in zip(FIELDS, words, strict=True)]
    values = expand([reading.text for reading in readings])
    return _timetable(expression, readings, values)


def _timetable(
    expression: str, readings: Sequence[FieldReading], values: Sequence[tuple[int, ...]]
) -> CronTimetable:
    minutes, hours, days, months, weekdays = values
    _, hour, day, _, weekday = readings
    either = not day.starred and not weekday.starred
    masks = _join_days(
        number_masks(day.plain(days), day.rules),
        weekday_masks(weekday.plain(weekdays), weekday.rules),
        either,
    )
    return CronTimetable(
        expression=expression,
        minutes=minutes,
        hours=hours,
        months=months,
        times=_times(minutes, hours),
        day_masks=masks,
        follows_clock=hour.starred,
        restricts_both_days=either,
        never=is_never(months, masks),
    )


def _times(minutes: Sequence[int], hours: Sequence[int]) -> int:
    one_hour = sum(1 << minute for minute in minutes)
    return sum(one_hour << 60 * hour for hour in hours)


def _join_days(numbers: Sequence[int], weekdays: Sequence[int], either: bool) -> tuple[int, ...]:
    """Combine the day fields: if both are restricted, either may match, otherwise both must."""
    pairs = zip(numbers, weekdays, strict=True)
    return tuple((number | weekday) if either else (number & weekday) for number, weekday in pairs)


def _read_field(field: Field, text: str) -> FieldReading:
    if "?" in text:
        return _question_mark(field, text)
    terms: list[str] = []
    rules: list[DayRule] = []
    for term in text.split(","):
        _check_term(field, text, term)
        rule = day_rule(field, term)
        if rule is None:
            terms.append(plain_term(field, term))
        else:
            rules.append(rule)
    return FieldReading(tuple(terms), tuple(rules), starred=text.startswith("*"))


def _question_mark(field: Field, text: str) -> FieldReading:
    if field not in DAY_FIELDS:
        raise term_error(field, text, "? is allowed only in the two day fields", "write *")
    if text != "?":
        raise term_error(field, text, "? must be the only term of the field", "write ?")
    return FieldReading((EVERY_VALUE,), (), starred=True)


def _check_term(field: Field, text: str, term: str) -> None:
    if not term:
        raise term_error(field, text, "a term in the list is empty", "remove a comma")
    if term[0] in "hrHR" and re.fullmatch(_HASHED, term):
        problem = "hashed (H) and random (R) values are not supported: schedules have fixed times"
        raise term_error(field, term, problem, "write a number; spread: 10m distributes the starts")


def _wrong_count(words: Sequence[str]) -> CronError:
    message = f"a cron expression has 5 fields ({_ORDER}), this one has {len(words)}"
    if len(words) not in (6, 7):
        return CronError(message, "write for example 0 2 * * * for every day at 02:00")
    return CronError(f"{message}; seconds and years are not supported", _field_to_drop(words))


def _field_to_drop(words: Sequence[str]) -> str:
    """Return which field to remove: seconds come first and years last."""
    if len(words) == 7:
        which, kept = "the first field (seconds) and the last one (years)", words[1:-1]
    elif re.fullmatch(_YEAR, words[-1]):
        which, kept = "the last field (years)", words[:-1]
    else:
        which, kept = "the first field (seconds)", words[1:]
    return f"drop {which}: {' '.join(kept)}"
