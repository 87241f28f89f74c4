"""Audit records as text: what changed in words, and each value before and after."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final, cast

from tenantcron.cli.formats.change_words import FieldChange, field_changes, value_changes
from tenantcron.cli.moments import utc
from tenantcron.core.execution_ids import short_id
from tenantcron.schedules.definition import Definition
from tenantcron.schedules.pause import pause_text
from tenantcron.service.responses.shapes import (
    AuditRecordResponse,
    ClusterAuditRecordResponse,
    DefinitionResponse,
)

# Types of audited entities.
_EXECUTION: Final = "execution"
_PAUSE: Final = "pause"
_SCHEDULE: Final = "schedule"
# The operation that records why limits or a pause were changed.
_REASON: Final = "reason"
# Columns that change with each write, and say nothing about it.
_BOOKKEEPING: Final = frozenset(("updated_at", "schedule_revision", "synced_revision"))
# The column of a schedule that has all settings but the timetable.
_SETTINGS: Final = "definition"


def change_title(record: ClusterAuditRecordResponse) -> str:
    """Return the operation and its entity: `update schedule acme/nightly`."""
    operation, kind, name = record["operation"], record["entity_type"], record["entity_id"]
    if kind == _PAUSE:
        return f"{operation} schedule {name}"
    if kind == _EXECUTION:
        name = short_id(name)
    if kind == _SCHEDULE:
        name = f"{record['tenant']}/{name}"
    return f"{operation} {kind} {name}"


def change_in_words(record: AuditRecordResponse) -> str:
    """Return the operation with its details on one line."""
    details = "; ".join(change_details(record))
    return f"{record['operation']}: {details}" if details else record["operation"]


def change_details(record: AuditRecordResponse) -> Iterator[str]:
    """Yield the values that differ, or the reason of an operation."""
    before, after, kind = record["before"], record["after"], record["entity_type"]
    if not isinstance(after, Mapping):
        return
    if kind == _PAUSE:
        until = f", until {utc(str(after['until']))}" if after.get("until") else ""
        yield pause_text(cast("str | None", after.get("reason"))) + until
    elif kind == _EXECUTION or record["operation"] == _REASON:
        yield from (str(after[key]) for key in ("schedule", "reason") if after.get(key))
    elif isinstance(before, Mapping):
        changes = _settings(before, after) if kind == _SCHEDULE else _columns(before, after)
        yield from map(str, changes)


def _settings(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[FieldChange]:
    """Yield what differs of the manifest's columns: a row also has ids and timestamps."""
    names = [field.name for field in fields(Definition)]
    differ = [name for name in names if before.get(name) != after.get(name)]
    plain = [name for name in differ if name != _SETTINGS]
    sides = [cast("DefinitionResponse", side) for side in (before, after)]
    if _SETTINGS in differ:
        keys = {**sides[0][_SETTINGS], **sides[1][_SETTINGS]}
        plain += [f"{_SETTINGS}.{key}" for key in keys]
    return field_changes(sides[0], sides[1], plain, None)


def _columns(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[FieldChange]:
    for name in after:
        if name not in _BOOKKEEPING:
            yield from value_changes(name, before.get(name), after.get(name))
