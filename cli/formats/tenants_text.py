"""Tenants as text: one line per tenant."""

from collections.abc import Iterable
from typing import Final

from tenantcron.cli.numbers import DEFAULT
from tenantcron.core.labels import labels_in_words
from tenantcron.store.rows.tenants import TenantRow

_TITLES: Final = ("tenant", "status", "revision", "max schedules", "max concurrent")
_LABELS: Final = "labels"
_REASON: Final = "reason"


def titles(rows: Iterable[TenantRow]) -> tuple[str, ...]:
    """Return the column titles for these tenants; labels only if a tenant has any."""
    has_labels = any(row.labels for row in rows)
    return (*_TITLES, _LABELS, _REASON) if has_labels else (*_TITLES, _REASON)


def cells(row: TenantRow, shown: tuple[str, ...]) -> tuple[str, ...]:
    """Return the cells of a tenant for the shown titles."""
    limits = (row.max_schedules, row.max_concurrent)
    numbers = (DEFAULT if limit is None else str(limit) for limit in limits)
    labels = (labels_in_words(row.labels),) if _LABELS in shown else ()
    reason = row.status_reason or ""
    return (row.id, row.status, str(row.schedule_revision), *numbers, *labels, reason)
