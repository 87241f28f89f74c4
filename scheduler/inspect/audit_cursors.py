"""Compare the cursors of a tenant with its schedules. Values in, values out.

The caller ensures that the tenant is in sync: between a change and its refresh the two differ
legitimately.
"""

from collections.abc import Sequence

from tenantcron.core.names import TenantId
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.inspect.audit_findings import AuditCode, AuditFinding
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.schedule_definitions import definition_id
from tenantcron.store.rows.schedule_rows import ScheduleRow

_PROVIDER = TenantScheduleProvider().name
# The columns that a cursor copies from its schedule.
_COPIED = ("schedule_name", "saga_name", "cron_expr", "timezone", "enabled", "effective_from")


def compare_cursors(
    tenant: TenantId, schedules: Sequence[ScheduleRow], cursors: Sequence[CursorRow]
) -> list[AuditFinding]:
    """Compare the cursors of a tenant that is in sync with its schedules."""
    synced = {cursor.schedule_id: cursor for cursor in cursors if cursor.provider == _PROVIDER}
    declared = {schedule.id for schedule in schedules}
    pairs = [(schedule, synced[schedule.id]) for schedule in schedules if schedule.id in synced]
    return [
        *(_missing(tenant, schedule) for schedule in schedules if schedule.id not in synced),
        *(_orphaned(cursor) for cursor in synced.values() if cursor.schedule_id not in declared),
        *(_different(*pair) for pair in pairs if _differences(*pair)),
    ]


def _missing(tenant: TenantId, schedule: ScheduleRow) -> AuditFinding:
    message = "the schedule has no cursor, so it never fires"
    return AuditFinding(AuditCode.MISSING_CURSOR, tenant, schedule.schedule_name, message)


def _orphaned(cursor: CursorRow) -> AuditFinding:
    message = "the cursor has no schedule"
    return AuditFinding(AuditCode.ORPHANED_CURSOR, cursor.tenant_id, cursor.schedule_name, message)


def _differences(schedule: ScheduleRow, cursor: CursorRow) -> list[str]:
    names = [name for name in _COPIED if getattr(schedule, name) != getattr(cursor, name)]
    same = definition_id(schedule.definition) == cursor.definition_id
    return names if same else [*names, "definition"]


def _different(schedule: ScheduleRow, cursor: CursorRow) -> AuditFinding:
    names = _differences(schedule, cursor)
    differences = ", ".join(_difference(name, schedule, cursor) for name in names)
    message = f"the cursor differs from the schedule: {differences}"
    return AuditFinding(
        AuditCode.DIFFERENT_CURSOR, cursor.tenant_id, schedule.schedule_name, message
    )


def _difference(name: str, schedule: ScheduleRow, cursor: CursorRow) -> str:
    if name == "definition":
        return "definition"
    return f"{name} is {getattr(cursor, name)}, not {getattr(schedule, name)}"
