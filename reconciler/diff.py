"""Desired against live, as a pure function: values in, a list of changes out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.document import Stored
from tenantcron.schedules.definition import Definition

_PLAIN_COLUMNS = tuple(one.name for one in fields(Definition) if one.name != "definition")


class Action(StrEnum):
    """What a change does."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """One schedule's way from what is live to what is desired."""

    action: Action
    schedule: str
    before: Definition | None
    after: Definition | None
    # Of an update: the columns that differ; inside `definition` the keys, as `definition.timeout`.
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScheduleDiff:
    """All changes by schedule name, and how many schedules need none."""

    changes: tuple[ScheduleChange, ...]
    unchanged: int

    def count(self, action: Action) -> int:
        """Count the changes of one kind."""
        return sum(change.action is action for change in self.changes)

    def of(self, action: Action) -> list[ScheduleChange]:
        """Return the changes of one kind."""
        return [change for change in self.changes if change.action is action]


def diff(desired: Sequence[Definition], live: Sequence[Definition]) -> ScheduleDiff:
    """Return what turns live into desired; the order of either does not matter."""
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
        # A key that is there with null and one that is not there are different things.
        if (key in before) != (key in after) or not _same(before.get(key), after.get(key)):
            yield f"definition.{key}"


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Compare as JSON does: true is not 1."""
    if isinstance(left, str):
        return left == right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return left == right and isinstance(left, bool) == isinstance(right, bool)
