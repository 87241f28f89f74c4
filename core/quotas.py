"""Quotas: how much of the shared system one tenant may use.

The policy declares quotas for all tenants and for single ones. An operator may set those of a
tenant, which take precedence. Where neither does, the built-in value applies.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.sizes import SizeError, format_size, parse_size
from tenantcron.core.suggest import close_match

_KIB: Final = 1024
_GIB: Final = 1024**3
DEFAULT: Final = "default"


class QuotaRule(NamedTuple):
    """The built-in value of a quota, and its range."""

    default: int
    lowest: int
    highest: int
    # Whether it is in bytes.
    is_size: bool = False

    def words(self, value: int) -> str:
        """Return a value for people."""
        return format_size(value).replace(" ", "") if self.is_size else str(value)

    @property
    def range(self) -> str:
        """The range for people."""
        return f"{self.words(self.lowest)} to {self.words(self.highest)}"


# `tenantcron.submit_tasks_at` and the claim have the same built-in values.
QUOTAS: Final[Mapping[str, QuotaRule]] = {
    # Submitted tasks that have not started.
    "pending_tasks": QuotaRule(10_000, 0, 10_000_000),
    # Executions that start within a minute of the clock. A tenant that may start nothing is
    # suspended instead.
    "starts_per_minute": QuotaRule(1_000, 1, 1_000_000),
    # The payload of one task.
    "payload_bytes": QuotaRule(256 * _KIB, 2, _KIB**2, is_size=True),
    # The payloads of all submitted tasks that have not started.
    "stored_bytes": QuotaRule(_GIB, 0, 1024 * _GIB, is_size=True),
    # Schedules of a manifest with the same `owner`.
    "schedules_per_owner": QuotaRule(100, 0, 100_000),
}
Quotas = Mapping[str, int]


class QuotaSource(StrEnum):
    """Where the value of a quota comes from."""

    DEFAULT = "default"
    POLICY = "policy"
    TENANT_POLICY = "tenant_policy"
    OPERATOR = "operator"


class EffectiveQuota(NamedTuple):
    """A quota of one tenant."""

    value: int
    source: QuotaSource


class DeclaredQuotas(NamedTuple):
    """What a policy declares: quotas of every tenant, and of single ones."""

    overall: Quotas = MappingProxyType({})
    tenants: Mapping[TenantId, Quotas] = MappingProxyType({})

    def overridden(self, own: Mapping[TenantId, Quotas]) -> "DeclaredQuotas":
        """Return the quotas with those that operators have set for tenants."""
        tenants = {tenant: {**self.tenants.get(tenant, {}), **own[tenant]} for tenant in own}
        return DeclaredQuotas(self.overall, {**self.tenants, **tenants}) if own else self

    def value(self, name: str, tenant: TenantId | None) -> int:
        """Return one quota of a tenant; of any tenant for None."""
        of_tenant = self.tenants.get(tenant, {}) if tenant is not None else {}
        return of_tenant.get(name, self.overall.get(name, QUOTAS[name].default))

    def of_tenant(self, tenant: TenantId, own: Quotas) -> dict[str, EffectiveQuota]:
        """Return the quotas of a tenant by name; `own` are those of an operator."""
        levels = (
            (own, QuotaSource.OPERATOR),
            (self.tenants.get(tenant, {}), QuotaSource.TENANT_POLICY),
            (self.overall, QuotaSource.POLICY),
        )
        return {name: _effective(name, rule, levels) for name, rule in QUOTAS.items()}


def _effective(
    name: str, rule: QuotaRule, levels: tuple[tuple[Quotas, QuotaSource], ...]
) -> EffectiveQuota:
    for quotas, source in levels:
        if name in quotas:
            return EffectiveQuota(quotas[name], source)
    return EffectiveQuota(rule.default, QuotaSource.DEFAULT)


def parse_quota(text: str) -> tuple[str, int | None]:
    """Read `NAME=VALUE`; the value is a number, a size or `default`, which becomes None."""
    name, _, value = text.partition("=")
    rule = QUOTAS.get(name)
    if rule is None:
        meant = close_match(name, QUOTAS)
        hint = f"did you mean {meant}?" if meant else f"the quotas are {', '.join(QUOTAS)}"
        raise UsageError(f"{name!r} is not a quota: {hint}")
    if value == DEFAULT:
        return name, None
    number = _number(value, rule)
    if number is None or not rule.lowest <= number <= rule.highest:
        raise UsageError(f"{name} must be {rule.range}, or {DEFAULT}; {value!r} is not")
    return name, number


def _number(text: str, rule: QuotaRule) -> int | None:
    # Longer numbers are out of range and slow to parse.
    if text.isascii() and text.isdigit() and len(text) <= len(str(rule.highest)):
        return int(text)
    try:
        return parse_size(text) if rule.is_size else None
    except SizeError:
        return None
