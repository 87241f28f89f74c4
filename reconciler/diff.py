"""Compares desired with live schedules, as a pure function."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.document import Stored
from tenantcron.schedules.definition import Definition

_PLAIN_COLUMNS = tuple(column.name for column in fields(Definition) if column.name != "definition")


class Action(StrEnum):
    """The type of a change."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """The change of a schedule from its live to its desired definition."""

    action: Action
    schedule: str
    before: Definition | None
    after: Definition | None
    # The columns that an update changes; for `definition` its keys, as `definition.timeout`.
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScheduleDiff:
    """All changes ordered by schedule name, and the number of unchanged schedules."""

    changes: tuple[ScheduleChange, ...]
    unchanged: int

    def count(self, action: Action) -> int:
        """Count the changes of a type."""
        return sum(change.action is action for change in self.changes)

    def of(self, action: Action) -> list[ScheduleChange]:
        """Return the changes of a type."""
        return [change for change in self.changes if change.action is action]


def diff(desired: Sequence[Definition], live: Sequence[Definition]) -> ScheduleDiff:
    """Return the changes from live to desired; the order of both is irrelevant."""
    if isinstance(desired, Stored) and desired == live:
        return ScheduleDiff((), len(live))
    desired_by_name = {schedule.schedule_name: schedule for schedule in desired}
    live_by_name = {schedule.schedule_name: schedule for schedule in live}
    names = sorted(desired_by_name.keys() | live_by_name.keys())
    changes = tuple(
        change
        for name in names
        if (change := _change(name, live_by_name.get(name), desired_by_name.get(name))) is not None
    )
    return ScheduleDiff(changes, len(names) - len(changes))


def _change(
    name: str, before: Definition | None, after: Definition | None
) -> ScheduleChange | None:
    if before is None:
        return ScheduleChange(Action.CREATE, name, None, after)
    if after is None:
        return ScheduleChange(Action.DELETE, name, before, None)
    differing = tuple(_differing(before, after))
    return ScheduleChange(Action.UPDATE, name, before, after, differing) if differing else None


def _differing(before: Definition, after: Definition) -> Iterator[str]:
    for column in _PLAIN_COLUMNS:
        if getattr(before, column) != getattr(after, column):
            yield column
    if not _same(before.definition, after.definition):
        yield from _differing_keys(before.definition, after.definition)


def _differing_keys(before: JsonObject, after: JsonObject) -> Iterator[str]:
    for key in sorted(before.keys() | after.keys()):
        # A key with the value null differs from an absent key.
        if (key in before) != (key in after) or not _same(before.get(key), after.get(key)):
            yield f"definition.{key}"


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Compare as JSON does: true differs from 1."""
    if isinstance(left, str):
        return left == right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return left == right and isinstance(left, bool) == isinstance(right, bool)
