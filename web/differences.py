"""What differs between two versions of a schedule, down to the single value, as people read it."""

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.diff import ScheduleChange
from tenantcron.web.words import NOTHING

_DEFINITION: Final = "definition."


class FieldDifference(NamedTuple):
    """One value that was another before."""

    name: str
    before: str
    after: str


def differences(change: ScheduleChange) -> Iterator[FieldDifference]:
    """Yield what a change of a schedule changes."""
    old, new = (one.as_json() if one else {} for one in (change.before, change.after))
    for field in change.fields:
        name = field.removeprefix(_DEFINITION)
        inside = name != field
        yield from _within(name, *(_value(one, name, inside=inside) for one in (old, new)))


def _value(schedule: JsonValue, name: str, *, inside: bool) -> JsonValue:
    of = schedule.get("definition") if inside and isinstance(schedule, dict) else schedule
    return of.get(name) if isinstance(of, dict) else None


def _within(name: str, old: JsonValue, new: JsonValue) -> Iterator[FieldDifference]:
    """Look into what has parts on both sides, so that the parts that stay are not shown."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            part = f"{name}.{key}"
            if key in old and key in new:
                yield from _within(part, old[key], new[key])
            else:
                yield FieldDifference(part, _part(old, key), _part(new, key))
    elif old != new:
        yield FieldDifference(name, _told(old), _told(new))


def _part(of: JsonObject, key: str) -> str:
    """Tell a part that one side does not have: there null is something else than nothing."""
    if key not in of:
        return NOTHING
    return "null" if of[key] is None else _told(of[key])


def _told(value: JsonValue) -> str:
    """Write a value as a manifest would; no words for what is not said, or empty."""
    if value in (None, ""):
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
