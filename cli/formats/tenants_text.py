"""Tenants as text: one line per tenant."""

from collections.abc import Iterable
from typing import Final

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.numbers import DEFAULT
from tenantcron.core.labels import labels_in_words
from tenantcron.store.rows.tenants import TenantRow

_COLUMNS: Final = (
    Column("tenant", Fit.NAME),
    Column("status"),
    Column("revision", Fit.OPTIONAL),
    Column("max schedules", Fit.OPTIONAL),
    Column("max concurrent", Fit.OPTIONAL),
)
_LABELS: Final = Column("labels", Fit.PROSE)
_REASON: Final = Column("reason", Fit.PROSE)


def columns(rows: Iterable[TenantRow]) -> tuple[Column, ...]:
    """Return the columns for these tenants; labels only if a tenant has any."""
    has_labels = any(row.labels for row in rows)
    return (*_COLUMNS, _LABELS, _REASON) if has_labels else (*_COLUMNS, _REASON)


def cells(row: TenantRow, shown: tuple[Column, ...]) -> tuple[str, ...]:
    """Return the cells of a tenant for the shown columns."""
    limits = (row.max_schedules, row.max_concurrent)
    numbers = (DEFAULT if limit is None else str(limit) for limit in limits)
    labels = (labels_in_words(row.labels),) if _LABELS in shown else ()
    reason = row.status_reason or ""
    return (row.id, row.status, str(row.schedule_revision), *numbers, *labels, reason)
