"""What a migration did, as data."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class ControlOutcome:
    """The control schema's version before and after; None before the first migration."""

    before: str | None
    after: str


class TenantState(Enum):
    """How one tenant's migration ended."""

    CURRENT = "current"
    MIGRATED = "migrated"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """One tenant, how it ended, and why if it failed."""

    tenant: str
    state: TenantState
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole run; the tenants are in the order of their ids."""

    control: ControlOutcome
    tenants: tuple[TenantOutcome, ...]

    @property
    def failed(self) -> tuple[TenantOutcome, ...]:
        """The tenants that are not up to date."""
        return tuple(one for one in self.tenants if one.state is TenantState.FAILED)

    def count(self, state: TenantState) -> int:
        """Return how many tenants ended like that."""
        return sum(one.state is state for one in self.tenants)
