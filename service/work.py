"""The service behind the API: the database as each caller sees it, and all that requests share."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from uuid import UUID

from tenantcron.actor.attribution import Attribution
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.manifests.policy import Policy
from tenantcron.provider.bounds import Bounds
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
    """What the requests of one process share."""

    database: Database
    settings: Settings
    policy: Policy
    callers: Callers
    # Whether the database keeps tenants apart, too; see `store.schema.api_role`.
    row_level_security: bool
    # How it goes, for Prometheus.
    metrics: Callable[[], Awaitable[bytes]]
    # The public keys of our execution tokens; None: not told here.
    key_set: Callable[[], Awaitable[Mapping[str, object]]] | None = None
    # Whether these tokens are active, and fresh ones; None as well.
    live_tokens: LiveTokens | None = None
    checking: Checking = field(default_factory=lambda: Checking(serving=True))
    slots: ManifestSlots = field(default_factory=ManifestSlots)

    def work(self, caller: Caller, correlation_id: UUID) -> "Work":
        """Return what one request works with."""
        return Work(self, caller, Attribution(caller.actor, correlation_id))


@dataclass(frozen=True, slots=True)
class Work:
    """One request: who asks, what they see, and in whose name things are changed."""

    service: Service
    caller: Caller
    who: Attribution

    @property
    def reading(self) -> Database:
        """The database as the caller sees it."""
        database = self.service.database
        return database.seen_by(self.bound_to) if self.service.row_level_security else database

    @property
    def writing(self) -> Database:
        """The database for changes to what `reading` has shown to be the caller's."""
        return self.service.database

    @property
    def settings(self) -> Settings:
        """The settings of the service."""
        return self.service.settings

    @property
    def bounds(self) -> Bounds:
        """What schedules of manifests may be."""
        policy = self.service.policy
        return Bounds(policy.minimum_interval, policy.max_schedules_per_tenant)

    @property
    def bound_to(self) -> TenantId | None:
        """The one tenant that the caller sees; None: all."""
        return self.caller.grant.tenant

    def manifest_slot(self) -> AbstractContextManager[None]:
        """Return one of the caller's slots for work on a manifest."""
        return self.service.slots.take(self.caller.key)

    def require(self, permission: Permission) -> None:
        """Refuse what the caller's role does not allow."""
        if not may(self.caller.grant, permission):
            role, bound = self.caller.grant.role, self.bound_to
            whom = f" bound to `{bound}`" if bound else ""
            raise ApiProblem("TC702", f"the role {role}{whom} may not {permission}")

    def require_tenant(self, tenant: TenantId) -> None:
        """Let a bound caller know of its own tenant only: any other does not exist for it."""
        if not self.sees(tenant):
            raise UnknownError(f"tenant `{tenant}` does not exist")

    def sees(self, tenant: TenantId) -> bool:
        """Whether the caller may know of a tenant."""
        return self.bound_to in (None, tenant)
