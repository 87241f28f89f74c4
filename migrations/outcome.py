"""The result of a migration, as data."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class ControlOutcome:
    """The control schema's version before and after; None before the first migration."""

    before: str | None
    after: str


class TenantMigrationState(Enum):
    """The result of one tenant's migration."""

    CURRENT = "current"
    MIGRATED = "migrated"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """One tenant, its result, and the reason of a failure."""

    tenant: str
    state: TenantMigrationState
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MigrationOutcome:
    """A complete run; the tenants are ordered by id."""

    control: ControlOutcome
    tenants: tuple[TenantOutcome, ...]

    @property
    def failed(self) -> tuple[TenantOutcome, ...]:
        """The tenants that are not up to date."""
        return tuple(
            tenant for tenant in self.tenants if tenant.state is TenantMigrationState.FAILED
        )

    def count(self, state: TenantMigrationState) -> int:
        """Return the number of tenants with this result."""
        return sum(tenant.state is state for tenant in self.tenants)
