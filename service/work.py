"""The service behind the API and the dashboard: shared state, and the context of a request."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from uuid import UUID

from tenantcron.actor.attribution import Attribution
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.manifests.policy import Policy
from tenantcron.provider.schedule_limits import Bounds
from tenantcron.reconciler.checking import Checking
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.scheduler.tokens.live_tokens import LiveTokens
from tenantcron.service.callers import Caller, Callers
from tenantcron.service.manifest_slots import ManifestSlots
from tenantcron.service.problems import ApiProblem
from tenantcron.service.roles import Permission, may
from tenantcron.store.connection.engine import Database


@dataclass(frozen=True, slots=True)
class Service:
    """The state that all requests of a process share."""

    database: Database
    settings: Settings
    policy: Policy
    callers: Callers
    # Whether the database isolates tenants; see `store.schema.api_role`.
    row_level_security: bool
    # Renders the metrics for Prometheus.
    metrics: Callable[[], Awaitable[bytes]]
    # Returns the public keys of execution tokens; None if the server has no keys.
    key_set: Callable[[], Awaitable[Mapping[str, object]]] | None = None
    # Introspects and renews execution tokens; None if the server has no keys.
    live_tokens: LiveTokens | None = None
    checking: Checking = field(default_factory=lambda: Checking(serving=True))
    slots: ManifestSlots = field(default_factory=ManifestSlots)

    def work(self, caller: Caller, correlation_id: UUID) -> "Work":
        """Return the context of a request."""
        return Work(self, caller, Attribution(caller.actor, correlation_id))


@dataclass(frozen=True, slots=True)
class Work:
    """The context of a request: its caller, what it may see, and the attribution of changes."""

    service: Service
    caller: Caller
    who: Attribution

    @property
    def reading(self) -> Database:
        """The database with the caller's row-level security."""
        database = self.service.database
        return database.seen_by(self.bound_to) if self.service.row_level_security else database

    @property
    def writing(self) -> Database:
        """The database for writes to rows that `reading` has shown to the caller."""
        return self.service.database

    @property
    def settings(self) -> Settings:
        """The settings of the service."""
        return self.service.settings

    @property
    def bounds(self) -> Bounds:
        """The bounds of schedules in the policy."""
        policy = self.service.policy
        return Bounds(policy.minimum_interval, policy.max_schedules_per_tenant, policy.caps)

    @property
    def bound_to(self) -> TenantId | None:
        """The only tenant that the caller may see; None for all tenants."""
        return self.caller.grant.tenant

    def manifest_slot(self) -> AbstractContextManager[None]:
        """Take one of the caller's slots for a manifest."""
        return self.service.slots.take(self.caller.key)

    def require(self, permission: Permission) -> None:
        """Raise ApiProblem if the caller's role does not have the permission."""
        if not may(self.caller.grant, permission):
            role, bound = self.caller.grant.role, self.bound_to
            scope = f" in tenant `{bound}`" if bound else ""
            detail = f"the role {role}{scope} does not have the permission `{permission}`"
            raise ApiProblem("TC702", detail)

    def require_tenant(self, tenant: TenantId) -> None:
        """Raise UnknownError if the caller may not see the tenant."""
        if not self.sees(tenant):
            raise UnknownError(f"tenant `{tenant}` does not exist")

    def sees(self, tenant: TenantId) -> bool:
        """Whether the caller may see a tenant."""
        return self.bound_to in (None, tenant)
