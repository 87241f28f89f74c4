"""Tenants for people: one line each."""

from typing import Final

from tenantcron.cli.numbers import DEFAULT
from tenantcron.store.tenants import TenantRow

TITLES: Final = ("tenant", "status", "revision", "max schedules", "max concurrent", "reason")


def cells(row: TenantRow) -> tuple[str, ...]:
    """Return the cells of a tenant's line."""
    limits = (row.max_schedules, row.max_concurrent)
    shown = (DEFAULT if limit is None else str(limit) for limit in limits)
    return (row.id, row.status, str(row.schedule_revision), *shown, row.status_reason or "")
