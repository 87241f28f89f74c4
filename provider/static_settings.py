"""Read the entries of `[[settings.schedules]]`: one schedule each, with the keys of manifests.

`tenant`, `name`, `saga` and `cron` are required. Missing keys have the defaults of a manifest, and
the definition has the format of an apply. All problems are
reported at once, with the number of the entry and the key.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.core.names import (
    NAME_EXPECTED,
    TENANT_EXPECTED,
    SagaName,
    ScheduleName,
    TenantId,
    is_name,
    is_reserved,
    is_tenant_id,
)
from tenantcron.core.suggest import close_match
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.cron.errors import CronError
from tenantcron.cron.parse import parse
from tenantcron.cron.timetable import CronTimetable
from tenantcron.cron.zones import UnknownZoneError, zone
from tenantcron.schedules import settings
from tenantcron.schedules.definition import Definition, define
from tenantcron.schedules.kinds import SettingKind, WrongValueError
from tenantcron.schedules.schedule import DesiredSchedule, Timing
from tenantcron.schedules.settings import (
    RETRY,
    SETTINGS,
    RetryPolicy,
    ScheduleSettings,
    conflicts,
    fill_in,
    fill_in_retry,
    write_settings,
)
from tenantcron.schedules.targets import write_target

# The definition of an entry without settings, in the stored format.
DEFAULTS: JsonObject = write_settings(settings.DEFAULTS) | write_target(None)

_REQUIRED = ("tenant", "name", "saga", "cron")
_LONGEST_CRON = 64


class StaticSchedule(NamedTuple):
    """A valid schedule of the settings, with every default filled in."""

    tenant: TenantId
    definition: Definition


class _WrongError(TenantcronError):
    """A problem with one value."""


Reader = Callable[[JsonValue], object]


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
    given = fill_in(settings.DEFAULTS, values)
    wrong.extend(conflict.message for conflict in conflicts(given))
    if not wrong:
        definition = define(_desired(values, given))
        if len(definition.cron_expr) <= _LONGEST_CRON:
            return StaticSchedule(TenantId(str(values["tenant"])), definition)
        wrong.append(f"`cron` has more than {_LONGEST_CRON} characters")
    label = f"  entry {number} ({entry.get('tenant', '?')}/{entry.get('name', '?')})"
    problems.extend(f"{label}: {problem}" for problem in wrong)
    return None


def _desired(values: Mapping[str, object], given: ScheduleSettings) -> DesiredSchedule:
    timing = Timing(parse(str(values["cron"])), str(values.get("timezone", "UTC")), given)
    return DesiredSchedule(ScheduleName(str(values["name"])), SagaName(str(values["saga"])), timing)


def _read_keys(
    entry: Mapping[str, JsonValue], readers: Mapping[str, Reader], wrong: list[str]
) -> dict[str, object]:
    """Read every key with its reader; collect problems with the name of the key."""
    values: dict[str, object] = {}
    for key, value in entry.items():
        if key not in readers:
            meant = close_match(key, readers)
            wrong.append(f"unknown key `{key}`{f': did you mean `{meant}`?' if meant else ''}")
            continue
        try:
            values[key] = readers[key](value)
        except (_WrongError, WrongValueError) as error:
            wrong.append(f"`{key}` {error}")
    return values


def _duplicates(schedules: Sequence[StaticSchedule]) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for schedule in schedules:
        key = schedule.tenant, schedule.definition.schedule_name
        if key in seen:
            yield f"  {key[0]}/{key[1]}: duplicate `name`"
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


def _cron(value: JsonValue) -> str:
    try:
        timetable = parse(_text(value))
    except CronError as error:
        raise _WrongError(f"{error.message}{f' ({error.hint})' if error.hint else ''}") from error
    if isinstance(timetable, CronTimetable) and timetable.never:
        raise _WrongError("never fires")
    return timetable.expression


def _timezone(value: JsonValue) -> str:
    try:
        return zone(_text(value)).key
    except UnknownZoneError as error:
        raise _WrongError(str(error)) from error


def _setting(kind: SettingKind[object]) -> Reader:
    """Return the reader of a setting, which refuses values beyond the limits."""

    def read(value: JsonValue) -> object:
        setting = kind.read(value)
        if (limits := kind.refusal(setting)) is not None:
            raise WrongValueError(limits)
        return setting

    return read


def _retry(value: JsonValue) -> RetryPolicy:
    if not isinstance(value, dict):
        raise _WrongError("must be a table")
    wrong: list[str] = []
    given = _read_keys(value, _RETRY_READERS, wrong)
    if wrong:
        raise _WrongError(": " + ", ".join(wrong))
    return fill_in_retry(settings.DEFAULTS.retry, given)


_RETRY_READERS: Mapping[str, Reader] = {key: _setting(kind) for key, kind in RETRY.items()}
_READERS: Mapping[str, Reader] = {
    "tenant": _tenant,
    "name": _name,
    "saga": _name,
    "cron": _cron,
    "timezone": _timezone,
    **{key: _setting(kind) for key, kind in SETTINGS.items()},
    "retry": _retry,
}
