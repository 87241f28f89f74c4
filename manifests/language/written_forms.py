"""Write a stored timetable in the form of a manifest: the inverse of `translate`."""

import re
from collections.abc import Mapping

from tenantcron.core.durations import DurationError, format_duration, parse_duration
from tenantcron.cron.zones import UnknownZoneError, zone
from tenantcron.manifests.language.translate import WEEKDAYS, every

_AT = re.compile(r"([0-9]{1,2}) ([0-9]{1,2}) (\S+ \* \S+)")
_EVERY = re.compile(r"(?:\*/([0-9]+) \* \* \* \*|0 \*/([0-9]+) \* \* \*|@every (\S+))")
_ONCE = "@at "
_FIXED = {"* * * * *": "1m", "0 * * * *": "1h", "0 0 * * *": "1d"}


def in_form(expression: str, timezone: str, form: str) -> Mapping[str, str] | None:
    """Return the keys of a form with their values, None if the form cannot say the same.

    A form without keys, such as `every`, has its value under the empty key.
    """
    match form:
        case "cron":
            return {"": expression}
        case "every":
            return _every(expression, timezone)
        case "once":
            is_once = expression.startswith(_ONCE)
            return {"": expression.removeprefix(_ONCE)} if is_once else None
        case "daily" | "weekly" | "monthly":
            return _at(expression, form)
    return None


def _every(expression: str, timezone: str) -> Mapping[str, str] | None:
    found = _EVERY.fullmatch(expression)
    text = _FIXED.get(expression, "")
    if found is not None:
        text = f"{found[1]}m" if found[1] else f"{found[2]}h" if found[2] else found[3]
    try:
        interval = parse_duration(text)
        is_same = every(interval, zone(timezone)) == expression
    except (DurationError, UnknownZoneError):
        return None
    return {"": format_duration(interval)} if is_same else None


def _at(expression: str, form: str) -> Mapping[str, str] | None:
    found = _AT.fullmatch(expression)
    if found is None:
        return None
    minute, hour, days = found.groups()
    rest = _days(days, form)
    return None if rest is None else {**rest, "at": f"{int(hour):02}:{int(minute):02}"}


def _days(days: str, form: str) -> Mapping[str, str] | None:
    day, _, weekdays = days.split(" ")
    if form == "daily":
        return {} if days == "* * *" else None
    if form == "weekly":
        is_list = day == "*" and re.fullmatch("[0-6](,[0-6])*", weekdays)
        return {"on": _weekdays(weekdays)} if is_list else None
    is_day = weekdays == "*" and re.fullmatch("[0-9]+|L", day)
    return {"day": "last" if day == "L" else day} if is_day else None


def _weekdays(numbers: str) -> str:
    return ", ".join(WEEKDAYS[int(number)] for number in numbers.split(","))
