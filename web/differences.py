"""The differences between two versions of a schedule, value by value, as text."""

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.diff import ScheduleChange
from tenantcron.web.words import NOTHING

_DEFINITION: Final = "definition."


class FieldDifference(NamedTuple):
    """A value that differs between two versions."""

    name: str
    before: str
    after: str


def differences(change: ScheduleChange) -> Iterator[FieldDifference]:
    """Yield the values that a change of a schedule changes."""
    old, new = (version.as_json() if version else {} for version in (change.before, change.after))
    for field in change.fields:
        name = field.removeprefix(_DEFINITION)
        inside = name != field
        yield from _within(name, _value(old, name, inside=inside), _value(new, name, inside=inside))


def _value(schedule: JsonValue, name: str, *, inside: bool) -> JsonValue:
    fields = schedule.get("definition") if inside and isinstance(schedule, dict) else schedule
    return fields.get(name) if isinstance(fields, dict) else None


def _within(name: str, old: JsonValue, new: JsonValue) -> Iterator[FieldDifference]:
    """Descend into objects of both versions, so that unchanged keys are not shown."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            part = f"{name}.{key}"
            if key in old and key in new:
                yield from _within(part, old[key], new[key])
            else:
                yield FieldDifference(part, _part(old, key), _part(new, key))
    elif old != new:
        yield FieldDifference(name, formatted(old), formatted(new))


def _part(version: JsonObject, key: str) -> str:
    """Format a key that only one version has: there, null differs from absent."""
    if key not in version:
        return NOTHING
    return "null" if version[key] is None else formatted(version[key])


def formatted(value: JsonValue) -> str:
    """Format a value as in a manifest; absent and empty values are a dash."""
    if value in (None, ""):
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
