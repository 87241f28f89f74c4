"""Read the entries of `[[settings.schedules]]`: one schedule each, with the keys of manifests.

`tenant`, `name`, `saga` and `cron` are required. Missing keys have the defaults of a manifest, and
the definition has the format of an apply; tests compare both with manifests. All problems are
reported at once, with the number of the entry and the key.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tenantcron.core.durations import DurationError, format_duration, parse_duration
from tenantcron.core.errors import UsageError
from tenantcron.core.names import (
    NAME_EXPECTED,
    OWNER_EXPECTED,
    TENANT_EXPECTED,
    TenantId,
    is_name,
    is_owner,
    is_reserved,
    is_tenant_id,
)
from tenantcron.core.suggest import close_match
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.cron.errors import CronError
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import CronTimetable
from tenantcron.cron.zones import UnknownZoneError, zone

# The defaults of an entry, in the stored format.
RETRY_DEFAULTS: JsonObject = {"max_attempts": 3, "backoff": "1s", "max_backoff": "1m"}
DEFAULTS: JsonObject = {
    "description": "",
    "spread": "0s",
    "overlap": "skip",
    "catch_up": "once",
    "catch_up_window": "1h",
    "start_within": "0s",
    "timeout": "5m",
    "retry": RETRY_DEFAULTS,
    "auto_pause_after": 10,
    "priority": "medium",
    "payload": {},
    "owner": None,
    "target": None,
}

_DAY = timedelta(days=1)
DURATIONS = {
    "spread": (timedelta(0), _DAY),
    "catch_up_window": (timedelta(0), 31 * _DAY),
    "start_within": (timedelta(0), _DAY),
    "timeout": (timedelta(seconds=1), _DAY),
    "backoff": (timedelta(0), _DAY),
    "max_backoff": (timedelta(0), _DAY),
}
CHOICES = {
    "overlap": ("skip", "queue", "allow", "cancel_running"),
    "catch_up": ("once", "none", "all"),
    "priority": ("critical", "high", "medium", "low"),
}
_REQUIRED = ("tenant", "name", "saga", "cron")
_LONGEST_CRON = 64
_LONGEST_DESCRIPTION = 1024
_LONGEST_PAYLOAD = 256 * 1024


@dataclass(frozen=True, slots=True)
class StaticSchedule:
    """A valid schedule of the settings, with every default filled in."""

    tenant: TenantId
    name: str
    saga: str
    cron_expr: str
    timezone: str
    enabled: bool
    definition: JsonObject


class _WrongError(ValueError):
    """A problem with one value."""


Reader = Callable[[JsonValue], JsonValue]


def read_entries(entries: Sequence[JsonObject]) -> tuple[StaticSchedule, ...]:
    """Read all entries; raise a UsageError that lists all problems."""
    problems: list[str] = []
    read = [_read_entry(number, entry, problems) for number, entry in enumerate(entries, start=1)]
    schedules = tuple(schedule for schedule in read if schedule is not None)
    problems.extend(_duplicates(schedules))
    if problems:
        raise UsageError("settings.schedules is not valid\n" + "\n".join(problems))
    return schedules


def _read_entry(number: int, entry: JsonObject, problems: list[str]) -> StaticSchedule | None:
    wrong: list[str] = [f"`{key}` is missing" for key in _REQUIRED if key not in entry]
    values = _read_keys(entry, _READERS, wrong)
    label = f"  entry {number} ({entry.get('tenant', '?')}/{entry.get('name', '?')})"
    problems.extend(f"{label}: {problem}" for problem in wrong)
    if wrong:
        return None
    return StaticSchedule(
        tenant=TenantId(str(values.pop("tenant"))),
        name=str(values.pop("name")),
        saga=str(values.pop("saga")),
        cron_expr=str(values.pop("cron")),
        timezone=str(values.pop("timezone", "UTC")),
        enabled=bool(values.pop("enabled", True)),
        definition=DEFAULTS | values,
    )


def _read_keys(
    entry: Mapping[str, JsonValue], readers: Mapping[str, Reader], wrong: list[str]
) -> JsonObject:
    """Read every key with its reader; collect problems with the name of the key."""
    values: JsonObject = {}
    for key, value in entry.items():
        if key not in readers:
            meant = close_match(key, readers)
            wrong.append(f"unknown key `{key}`{f': did you mean `{meant}`?' if meant else ''}")
            continue
        try:
            values[key] = readers[key](value)
        except _WrongError as error:
            wrong.append(f"`{key}` {error}")
    return values


def _duplicates(schedules: Sequence[StaticSchedule]) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for schedule in schedules:
        key = schedule.tenant, schedule.name
        if key in seen:
            yield f"  {schedule.tenant}/{schedule.name}: duplicate `name`"
        seen.add(key)


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise _WrongError("must be text")
    return value


def _tenant(value: JsonValue) -> str:
    text = _text(value)
    if not is_tenant_id(text) or is_reserved(text):
        raise _WrongError(f"{text!a} is not {TENANT_EXPECTED}")
    return text


def _name(value: JsonValue) -> str:
    text = _text(value)
    if not is_name(text):
        raise _WrongError(f"{text!a} is not {NAME_EXPECTED}")
    return text


def _owner(value: JsonValue) -> str:
    text = _text(value)
    if not is_owner(text):
        raise _WrongError(f"{text!a} is not {OWNER_EXPECTED}")
    return text


def _cron(value: JsonValue) -> str:
    try:
        timetable = parse(_text(value))
    except CronError as error:
        raise _WrongError(f"{error.message}{f' ({error.hint})' if error.hint else ''}") from error
    if len(timetable.expression) > _LONGEST_CRON:
        raise _WrongError(f"has more than {_LONGEST_CRON} characters")
    if isinstance(timetable, CronTimetable) and timetable.never:
        raise _WrongError("never fires")
    return timetable.expression


def _timezone(value: JsonValue) -> str:
    try:
        return zone(_text(value)).key
    except UnknownZoneError as error:
        raise _WrongError(str(error)) from error


def _flag(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise _WrongError("must be true or false")
    return value


def _description(value: JsonValue) -> str:
    text = _text(value)
    if len(text) > _LONGEST_DESCRIPTION or "\0" in text:
        raise _WrongError(f"has at most {_LONGEST_DESCRIPTION} characters, and no NUL")
    return text


def _duration(low: timedelta, high: timedelta) -> Reader:
    def read(value: JsonValue) -> str:
        try:
            duration = parse_duration(_text(value))
        except DurationError as error:
            raise _WrongError(str(error)) from error
        if not low <= duration <= high:
            raise _WrongError(f"must be from {format_duration(low)} to {format_duration(high)}")
        return format_duration(duration)

    return read


def _choice(among: Sequence[str]) -> Reader:
    def read(value: JsonValue) -> str:
        if value not in among:
            raise _WrongError(f"must be one of {', '.join(among)}")
        return str(value)

    return read


def _number(allowed: range, *, zero: bool = False) -> Reader:
    message = f"must be a number from {allowed.start} to {allowed.stop - 1}"

    def read(value: JsonValue) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _WrongError(message)
        if value not in allowed and not (zero and value == 0):
            raise _WrongError(f"{message}{', or 0 for never' if zero else ''}")
        return value

    return read


def _retry(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise _WrongError("must be a table")
    wrong: list[str] = []
    given = _read_keys(value, _RETRY_READERS, wrong)
    retry = RETRY_DEFAULTS | given
    backoff, longest = (parse_duration(str(retry[key])) for key in ("backoff", "max_backoff"))
    if "max_backoff" not in given and backoff > longest:
        retry["max_backoff"] = retry["backoff"]
    elif backoff > longest:
        wrong.append("`backoff` is longer than `max_backoff`")
    if wrong:
        raise _WrongError(": " + ", ".join(wrong))
    return retry


def _payload(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise _WrongError("must be a table")
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _WrongError(f"is not JSON: {error}") from error
    if len(text) > _LONGEST_PAYLOAD or "\\u0000" in text:
        raise _WrongError(f"has at most {_LONGEST_PAYLOAD:,} bytes as JSON, and no NUL")
    return value


_RETRY_READERS: Mapping[str, Reader] = {
    "max_attempts": _number(range(1, 21)),
    "backoff": _duration(*DURATIONS["backoff"]),
    "max_backoff": _duration(*DURATIONS["max_backoff"]),
}
_READERS: Mapping[str, Reader] = {
    "tenant": _tenant,
    "name": _name,
    "saga": _name,
    "cron": _cron,
    "timezone": _timezone,
    "enabled": _flag,
    "description": _description,
    **{key: _duration(*DURATIONS[key]) for key in DURATIONS if not key.endswith("backoff")},
    **{key: _choice(among) for key, among in CHOICES.items()},
    "retry": _retry,
    "auto_pause_after": _number(range(3, 101), zero=True),
    "payload": _payload,
    "owner": _owner,
}
