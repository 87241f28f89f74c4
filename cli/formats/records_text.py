"""Audit records as text: what changed in words, and each value before and after."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final, cast

from tenantcron.cli.formats.change_words import (
    FieldChange,
    common_form,
    field_changes,
    value_changes,
)
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
_LIMITS: Final = "limits"
# In the words of the command `limits`.
_LIMIT_COLUMNS: Final = {
    "declared": "max concurrent, declared",
    "declared_per_tenant": "max concurrent per tenant, declared",
    "operator": "max concurrent, set by an operator",
    "operator_per_tenant": "max concurrent per tenant, set by an operator",
}
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
    if kind == _LIMITS and operation != _REASON:
        return f"{operation} limits of the {name}"
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
    if kind == _EXECUTION:
        sides = [side for side in (before, after) if isinstance(side, Mapping)]
        yield from (str(side["schedule"]) for side in sides if side.get("schedule"))
    if not isinstance(after, Mapping):
        return
    if kind == _PAUSE:
        until = f", until {utc(str(after['until']))}" if after.get("until") else ""
        yield pause_text(cast("str | None", after.get("reason"))) + until
    elif kind == _EXECUTION or record["operation"] == _REASON:
        if after.get("reason"):
            yield str(after["reason"])
    elif isinstance(before, Mapping):
        words = _LIMIT_COLUMNS if kind == _LIMITS else {}
        is_schedule = kind == _SCHEDULE
        changes = _settings(before, after) if is_schedule else _columns(before, after, words)
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
    # A record does not have the form of the manifest.
    return field_changes(sides[0], sides[1], plain, common_form(sides[0], sides[1]))


def _columns(
    before: Mapping[str, object], after: Mapping[str, object], words: Mapping[str, str]
) -> Iterator[FieldChange]:
    for name in after:
        if name not in _BOOKKEEPING:
            yield from value_changes(words.get(name, name), before.get(name), after.get(name))
