"""Holds the cursors of a tenant against its schedules. Values in, values out.

Only for a tenant that is followed: who is between a change and its refresh differs rightly.
"""

from collections.abc import Sequence

from tenantcron.core.names import TenantId
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.inspect.audit_findings import AuditCode, AuditFinding
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.schedule_definitions import definition_id
from tenantcron.store.rows.schedule_rows import ScheduleRow

_PROVIDER = TenantScheduleProvider().name
# What a cursor takes over from its schedule.
_FOLLOWED = ("schedule_name", "saga_name", "cron_expr", "timezone", "enabled", "effective_from")


def compare(
    tenant: TenantId, schedules: Sequence[ScheduleRow], cursors: Sequence[CursorRow]
) -> list[AuditFinding]:
    """Hold the cursors of a tenant that is followed against its schedules."""
    followed = {one.schedule_id: one for one in cursors if one.provider == _PROVIDER}
    declared = {one.id: one for one in schedules}
    pairs = [(one, followed[one.id]) for one in schedules if one.id in followed]
    return [
        *(_missing(tenant, one) for one in schedules if one.id not in followed),
        *(_orphaned(one) for one in followed.values() if one.schedule_id not in declared),
        *(_different(*pair) for pair in pairs if _differences(*pair)),
    ]


def _missing(tenant: TenantId, schedule: ScheduleRow) -> AuditFinding:
    message = "the schedule has no cursor, so it never fires"
    return AuditFinding(AuditCode.MISSING_CURSOR, tenant, schedule.schedule_name, message)


def _orphaned(cursor: CursorRow) -> AuditFinding:
    message = "there is a cursor, but the tenant has no such schedule"
    return AuditFinding(AuditCode.ORPHANED_CURSOR, cursor.tenant_id, cursor.schedule_name, message)


def _differences(schedule: ScheduleRow, cursor: CursorRow) -> list[str]:
    names = [name for name in _FOLLOWED if getattr(schedule, name) != getattr(cursor, name)]
    same = definition_id(schedule.definition) == cursor.definition_id
    return names if same else [*names, "definition"]


def _different(schedule: ScheduleRow, cursor: CursorRow) -> AuditFinding:
    told = ", ".join(_difference(name, schedule, cursor) for name in _differences(schedule, cursor))
    message = f"the cursor does not follow the schedule: {told}"
    return AuditFinding(
        AuditCode.DIFFERENT_CURSOR, cursor.tenant_id, schedule.schedule_name, message
    )


def _difference(name: str, schedule: ScheduleRow, cursor: CursorRow) -> str:
    if name == "definition":
        return "definition"
    return f"{name} is {getattr(cursor, name)}, not {getattr(schedule, name)}"
