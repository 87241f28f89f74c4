"""References to schedules in user input: TENANT/SCHEDULE."""

from dataclasses import dataclass

from tenantcron.core.errors import UsageError
from tenantcron.core.names import NAME_EXPECTED, TenantId, is_name, tenant_id
from tenantcron.core.words import shortened


@dataclass(frozen=True, slots=True)
class ScheduleRef:
    """A schedule by its tenant and name."""

    tenant: TenantId
    schedule: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.schedule}"


def schedule_ref(text: str) -> ScheduleRef:
    """Parse TENANT/SCHEDULE from user input."""
    tenant, slash, schedule = text.partition("/")
    if not slash:
        raise UsageError(f"{shortened(text)!a} is not TENANT/SCHEDULE, such as acme/nightly")
    return ScheduleRef(tenant_id(tenant), schedule_name(schedule))


def schedule_name(text: str) -> str:
    """Check the name of a schedule from user input."""
    if not is_name(text):
        raise UsageError(f"the schedule {shortened(text)!a} is not {NAME_EXPECTED}")
    return text
