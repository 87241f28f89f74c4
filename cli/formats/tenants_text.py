"""Tenants as text: one line per tenant."""

from collections.abc import Collection
from typing import Final

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.numbers import DEFAULT
from tenantcron.core.labels import labels_in_words
from tenantcron.core.quotas import QUOTAS, QuotaSource
from tenantcron.core.tenant_limits import DEFAULT_WEIGHT
from tenantcron.service.responses.shapes import TenantDetailsResponse, TenantResponse

_COLUMNS: Final = (
    Column("tenant", Fit.NAME),
    Column("status"),
    Column("revision", Fit.OPTIONAL),
    Column("max schedules", Fit.OPTIONAL),
    Column("max concurrent", Fit.OPTIONAL),
)
_WEIGHT: Final = Column("weight", Fit.OPTIONAL)
_LABELS: Final = Column("labels", Fit.PROSE)
_REASON: Final = Column("reason", Fit.PROSE)
QUOTA_COLUMNS: Final = tuple(map(Column, ("quota", "value", "set by")))
_SOURCES: Final = {
    QuotaSource.DEFAULT: "default",
    QuotaSource.POLICY: "policy",
    QuotaSource.TENANT_POLICY: "policy of this tenant",
    QuotaSource.OPERATOR: "operator",
}


def columns(tenants: Collection[TenantResponse]) -> tuple[Column, ...]:
    """Return the columns for these tenants; weight and labels only if a tenant has them."""
    weight = [_WEIGHT] * any(tenant["weight"] != DEFAULT_WEIGHT for tenant in tenants)
    labels = [_LABELS] * any(tenant["labels"] for tenant in tenants)
    return (*_COLUMNS, *weight, *labels, _REASON)


def cells(tenant: TenantResponse, shown: tuple[Column, ...]) -> tuple[str, ...]:
    """Return the cells of a tenant for the shown columns."""
    limits = (tenant["max_schedules"], tenant["max_concurrent"])
    numbers = (DEFAULT if limit is None else str(limit) for limit in limits)
    weight = (str(tenant["weight"]),) if _WEIGHT in shown else ()
    labels = (labels_in_words(tenant["labels"]),) if _LABELS in shown else ()
    reason = tenant["status_reason"] or ""
    return (
        tenant["tenant"],
        tenant["status"],
        str(tenant["schedule_revision"]),
        *numbers,
        *weight,
        *labels,
        reason,
    )


def quota_rows(tenant: TenantDetailsResponse) -> list[tuple[str, str, str]]:
    """Return the quotas of a tenant. A server of another release may have others."""
    return [
        (name, _quota_in_words(name, quota["value"]), _SOURCES[QuotaSource(quota["source"])])
        for name, quota in tenant.get("effective_quotas", {}).items()
    ]


def _quota_in_words(name: str, value: int) -> str:
    rule = QUOTAS.get(name)
    return str(value) if rule is None else rule.words(value)
