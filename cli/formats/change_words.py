"""Changes of a schedule in the words of the manifest: `monthly.at: 02:00 → 03:00`.

The response has stored columns, in which a timetable is a cron expression. If the manifest's form
of the timetable is known, and the form can express both sides, the keys of that form are shown.
Otherwise, both expressions are shown under the key that the manifest has.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tenantcron.manifests.language.written_forms import in_form
from tenantcron.schedules.timetable import split_bounds
from tenantcron.service.responses.shapes import ChangeResponse, DefinitionResponse

_NOTHING = "nothing"
# From the most specific to the most general one.
_FORMS = ("daily", "weekly", "monthly", "every", "once")
_COLUMNS = {"saga_name": "saga"}


class FieldChange(NamedTuple):
    """One key with its values before and after."""

    key: str
    before: str
    after: str

    def __str__(self) -> str:
        """Return the change on one line."""
        return f"{self.key}: {self.before} → {self.after}"


def field_changes(
    before: DefinitionResponse | None,
    after: DefinitionResponse | None,
    fields: Sequence[str],
    form: str | None,
) -> Iterator[FieldChange]:
    """Yield what differs between two definitions."""
    if before is None or after is None:
        return
    for field in fields:
        column, _, key = field.partition(".")
        if column == "cron_expr":
            yield from _timetable(before, after, form or "cron")
        elif key:
            yield from value_changes(
                key, before["definition"].get(key), after["definition"].get(key)
            )
        else:
            sides: list[Mapping[str, object]] = [{**before}, {**after}]
            name = _COLUMNS.get(column, column)
            yield FieldChange(name, *(_shown(side.get(column)) for side in sides))


def common_form(before: DefinitionResponse, after: DefinitionResponse) -> str:
    """Return the form of a manifest that can express both timetables; `cron` if there is none."""
    sides = [
        (split_bounds(side["cron_expr"]).expression, side["timezone"]) for side in (before, after)
    ]
    return next(
        (
            form
            for form in _FORMS
            if all(in_form(expression, zone, form) is not None for expression, zone in sides)
        ),
        "cron",
    )


def changed_fields(change: ChangeResponse) -> Iterator[FieldChange]:
    """Yield what an update changes."""
    # A server of the previous release does not send the form.
    return field_changes(change["before"], change["after"], change["fields"], change.get("form"))


def _timetable(
    before: DefinitionResponse, after: DefinitionResponse, form: str
) -> Iterator[FieldChange]:
    stored = [split_bounds(side["cron_expr"]) for side in (before, after)]
    zones = (before["timezone"], after["timezone"])
    if stored[0].expression != stored[1].expression:
        sides = [
            in_form(part.expression, zone, form) for part, zone in zip(stored, zones, strict=True)
        ]
        if None in sides:
            sides = [{"": part.expression} for part in stored]
        yield from value_changes(form, *sides)
    yield from value_changes("starts", stored[0].starts, stored[1].starts)
    yield from value_changes("ends", stored[0].ends, stored[1].ends)


def value_changes(key: str, before: object, after: object) -> Iterator[FieldChange]:
    """Yield the change of a value; of mappings, the keys that differ: `retry.max_attempts`."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for inner in {**before, **after}:
            path = f"{key}.{inner}" if inner else key
            yield from value_changes(path, before.get(inner), after.get(inner))
    elif before != after:
        yield FieldChange(key, _shown(before), _shown(after))


def _shown(value: object) -> str:
    if value is None or value == "":
        return _NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
