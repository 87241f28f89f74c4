"""Desired: the normalised manifest, with every default filled in and every timetable translated."""

from typing import NamedTuple

from tenantcron.core.names import TenantId
from tenantcron.schedules.schedule import DesiredSchedule


class Desired(NamedTuple):
    """All schedules of one tenant's manifest, by name."""

    tenant: TenantId
    schedules: tuple[DesiredSchedule, ...]
