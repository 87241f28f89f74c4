"""The service behind the API and the dashboard: shared state, and the context of a request."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.grants import Grant
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.manifests.policy import Policy
from tenantcron.provider.schedule_limits import Bounds
from tenantcron.reconciler.checking import Checking
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.scheduler.metrics.counts import RequestCounts
from tenantcron.scheduler.steps.callbacks import Callbacks
from tenantcron.scheduler.tokens.live_tokens import LiveTokens
from tenantcron.service.audit_slots import AuditSlots
from tenantcron.service.callers import Caller, Callers
from tenantcron.service.manifest_slots import ManifestSlots
from tenantcron.service.problems import ApiProblem
from tenantcron.service.roles import Permission, covers, may
from tenantcron.service.submissions import SubmissionRules
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.read_replica import ReadReplica

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Service:
    """The state that all requests of a process share."""

    database: Database
    settings: Settings
    policy: Policy
    callers: Callers
    # Whether the database isolates tenants; see `store.schema.api_role`.
    row_level_security: bool
    # Records the reports of remote workers.
    callbacks: Callbacks
    # Renders the metrics for Prometheus.
    metrics: Callable[[], Awaitable[bytes]]
    # Returns the public keys of execution tokens; None if the server has no keys.
    key_set: Callable[[], Awaitable[Mapping[str, object]]] | None = None
    # Introspects and renews execution tokens; None if the server has no keys.
    live_tokens: LiveTokens | None = None
    # A standby for reads of history; None: they go to the primary.
    read_replica: ReadReplica | None = None
    requests: RequestCounts = field(default_factory=RequestCounts)
    checking: Checking = field(default_factory=lambda: Checking(serving=True))
    slots: ManifestSlots = field(default_factory=ManifestSlots)
    audit_slots: AuditSlots = field(default_factory=AuditSlots)
    # The rules of the policy for tasks; made from it.
    submissions: SubmissionRules = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "submissions", SubmissionRules(self.policy))

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
        return self._seen(self.service.database)

    async def read_history(
        self,
        read: Callable[[AsyncConnection], Awaitable[T]],
        *,
        current: bool,
        restricted: bool = True,
    ) -> T:
        """Read something that may be `read_replica.MOST_STALE` old, unless it must be current.

        Without row-level security (`restricted=False`) the read itself must filter by the caller.
        """
        seen = self._seen if restricted else _unrestricted
        replica = None if current else self.service.read_replica
        if replica is not None:
            # What is unknown there may have been created a moment ago.
            with suppress(UnknownError):
                return await replica.read(read, primary=self.service.database, seen=seen)
        async with seen(self.service.database).transaction() as connection:
            return await read(connection)

    def _seen(self, database: Database) -> Database:
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

    def require_grant(self, grant: Grant) -> None:
        """Raise ApiProblem if a grant allows more than the caller may do."""
        if not covers(self.caller.grant, grant):
            raise ApiProblem("TC702", "a token cannot grant more than it has itself")

    def require_all_tenants(self, what: str) -> None:
        """Raise ApiProblem if the caller is bound to a tenant; `what` names the resource."""
        if self.bound_to is not None:
            detail = f"{what} all tenants, but the token is for `{self.bound_to}`"
            raise ApiProblem("TC702", detail)

    def require_tenant(self, tenant: TenantId) -> None:
        """Raise UnknownError if the caller may not see the tenant."""
        if not self.sees(tenant):
            raise UnknownError(f"tenant `{tenant}` does not exist")

    def sees(self, tenant: TenantId) -> bool:
        """Whether the caller may see a tenant."""
        return self.bound_to in (None, tenant)


def _unrestricted(database: Database) -> Database:
    return database
