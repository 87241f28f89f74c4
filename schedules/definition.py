"""A schedule in stored form: the definition columns of `tenant_schedule`.

Everything is plain JSON in one canonical form (`1h30m`, never `90m`), so two manifests with the
same meaning are equal, and the document of a version can be compared with live rows. Numbers have
the form in which `jsonb` returns them.
"""

from dataclasses import dataclass

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.schedules.schedule import DesiredSchedule
from tenantcron.schedules.settings import write_columns, write_settings
from tenantcron.schedules.targets import write_target


@dataclass(frozen=True, slots=True)
class Definition:
    """The columns of a schedule that its manifest decides: no ids and no times."""

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


def define(schedule: DesiredSchedule) -> Definition:
    """Return the stored form of a schedule."""
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


def read_definition(columns: JsonValue) -> Definition:
    """Read the columns from JSON; a ValueError if some are missing or of another type."""
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
