"""What of a schedule is compared and stored: the definition columns of `tenant_schedule`.

Everything is plain JSON in one canonical spelling (`1h30m`, never `90m`), so that two manifests
that mean the same are the same, and the document of a version can be compared with live rows.
Numbers are spelled so that `jsonb` gives back what it was given.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import overload

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.manifests.desired import DesiredSchedule
from tenantcron.schedules.settings import write_columns, write_settings
from tenantcron.schedules.targets import write_target


@dataclass(frozen=True, slots=True)
class Definition:
    """One schedule as its row holds it; no ids and no times, for those are not the manifest's."""

    schedule_name: str
    saga_name: str
    cron_expr: str
    timezone: str
    enabled: bool
    definition: JsonObject

    def as_json(self) -> JsonObject:
        """Return the columns as JSON."""
        return {
            "schedule_name": self.schedule_name,
            "saga_name": self.saga_name,
            "cron_expr": self.cron_expr,
            "timezone": self.timezone,
            "enabled": self.enabled,
            "definition": self.definition,
        }


@dataclass(frozen=True)
class Stored(Sequence[Definition]):
    """Definitions in the database's own spelling of JSON, read when somebody looks into them.

    The same text means the same definitions. Another text may do so as well: `1` and `1.0`.
    """

    text: str
    length: int

    @cached_property
    def _definitions(self) -> tuple[Definition, ...]:
        return definitions({"schedules": json.loads(self.text)})

    def __len__(self) -> int:
        """Count them, which takes no reading."""
        return self.length

    @overload
    def __getitem__(self, index: int) -> Definition: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Definition, ...]: ...
    def __getitem__(self, index: int | slice) -> Definition | tuple[Definition, ...]:
        """Return one or some of them."""
        return self._definitions[index]


# What a manifest version keeps: {"schedules": [the columns of each definition]}.
Document = JsonObject


def define(schedule: DesiredSchedule) -> Definition:
    """Return the row that a desired schedule asks for."""
    timing = schedule.timing
    columns = write_columns(timing.timetable.expression, timing.settings)
    return Definition(
        schedule_name=schedule.name,
        saga_name=schedule.saga,
        cron_expr=columns.cron_expr,
        timezone=timing.timezone,
        enabled=columns.enabled,
        definition=write_settings(timing.settings) | write_target(schedule.target),
    )


def document(definitions: Iterable[Definition]) -> Document:
    """Return what a manifest version keeps: its schedules by name."""
    ordered = sorted(definitions, key=lambda one: one.schedule_name)
    return {"schedules": [one.as_json() for one in ordered]}


def stored(of: Document) -> Stored:
    """Return the schedules of a document as JSON, which is cheap to hand on."""
    schedules = definitions(of)
    return Stored(json.dumps([one.as_json() for one in schedules]), len(schedules))


def definitions(of: Document) -> tuple[Definition, ...]:
    """Read a document back; a ValueError if it is not one."""
    match of:
        case {"schedules": list(schedules)}:
            return tuple(_read(schedule) for schedule in schedules)
    raise ValueError("a document has a list of schedules")


def _read(columns: JsonValue) -> Definition:
    match columns:
        case {
            "schedule_name": str(schedule_name),
            "saga_name": str(saga_name),
            "cron_expr": str(cron_expr),
            "timezone": str(timezone),
            "enabled": bool(enabled),
            "definition": dict(definition),
        }:
            return Definition(schedule_name, saga_name, cron_expr, timezone, enabled, definition)
    raise ValueError("a schedule of a document has all definition columns")


def checksum(of: Document) -> str:
    """Return the fingerprint of a document; equal content has an equal one."""
    return sha256(canonical(of)).hexdigest()


def canonical(value: JsonValue) -> bytes:
    """Return the one spelling of a value that checksums are taken of."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode()
