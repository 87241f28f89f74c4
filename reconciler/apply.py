"""Applies one tenant's manifest, in one transaction.

The protocol:

1. Set the actor in the database; the audit triggers write it into every record.
2. Lock the tenant's row. Concurrent applies of a tenant are serialised here. With
   `create_tenants`, a missing tenant is created first; of two concurrent creators, one inserts the
   row and the other waits for it.
3. Read the state and plan again under the lock, because an earlier plan may be outdated. A reviewed
   plan is refused here if the tenant's revision has changed.
4. Write: the version if the content is new, deletes, updates, inserts. The number of round trips
   does not depend on the number of schedules. Then increment the tenant's revision and notify,
   unless the caller notifies for many tenants (see `announcing`).

Any failure rolls back the transaction, so the apply of a tenant is atomic. Repeat an apply that was
killed to finish it. An empty plan writes nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.reconciler.diff import Action, ScheduleChange
from tenantcron.reconciler.plan import DesiredState, Plan, Rules, make_plan
from tenantcron.reconciler.state import LiveState, read_state
from tenantcron.store.connection.backends import replace_after_uses
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, manifest_versions, tenant_schedules, tenants
from tenantcron.store.rows.manifest_versions import NewVersion
from tenantcron.store.rows.tenants import TenantRow

# A backend compiles the triggers of every tenant's table and caches their plans. When a session
# creates a table, every backend checks all its cached plans for invalidation. With the same
# backends, creating the 8,000th tenant takes five times as long as the first. A new connection per
# hundred tenants costs less than one percent of their creation.
TENANTS_A_CONNECTION = 100

# Creates a tenant in the given transaction; returns None if the tenant exists.
CreateTenant = Callable[[AsyncConnection, TenantId], Awaitable[TenantRow | None]]


@dataclass(frozen=True, slots=True)
class Applier:
    """Applies manifests as an actor."""

    database: Database
    rules: Rules
    who: Attribution
    source_ref: str | None
    create_tenant: CreateTenant
    # Whether each tenant's transaction notifies schedulers.
    notifies: bool = True

    async def apply(self, desired: DesiredState) -> Plan:
        """Apply the desired state of a tenant; return the applied plan."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            state = await self._locked_state(connection, desired.tenant)
            plan = make_plan(desired, state, self.rules)
            if not plan.is_empty and state.tenant is not None:
                await self._write(connection, plan, state.tenant)
            return plan

    async def _locked_state(self, connection: AsyncConnection, tenant_id: TenantId) -> LiveState:
        tenant = await tenants.lock(connection, tenant_id)
        if tenant is None and self.rules.create_tenants:
            created = await self.create_tenant(connection, tenant_id)
            if created is not None:
                return LiveState(created, is_new=True)
            tenant = await tenants.lock(connection, tenant_id)
        return LiveState() if tenant is None else await read_state(connection, tenant)

    async def _write(self, connection: AsyncConnection, plan: Plan, tenant: TenantRow) -> None:
        version_id = await self._version(connection, plan)
        schema, difference = tenant.schema_name, plan.difference
        deleted = [change.schedule for change in difference.of(Action.DELETE)]
        await tenant_schedules.remove(connection, schema, deleted)
        changed = _rows(difference.of(Action.UPDATE))
        await tenant_schedules.change(connection, schema, changed, version_id)
        new = _rows(difference.of(Action.CREATE))
        await tenant_schedules.add(connection, schema, new, version_id)
        if difference.changes:
            await tenants.raise_revision(connection, tenant.id, notify=self.notifies)
        replace_after_uses(connection, TENANTS_A_CONNECTION)

    async def _version(self, connection: AsyncConnection, plan: Plan) -> UUID:
        """Return the id of the rows' version; create a version if the content is new."""
        if plan.state.version is not None and not plan.makes_version:
            return plan.state.version.id
        desired = plan.desired
        new = NewVersion(
            id=uuid4(),
            tenant_id=desired.tenant,
            checksum=desired.checksum,
            source_checksum=desired.source_checksum,
            document=desired.document,
            applied_by=self.who.changed_by,
            source_ref=self.source_ref,
        )
        await manifest_versions.add(connection, new, plan.state.number + 1)
        return new.id


def _rows(changes: Sequence[ScheduleChange]) -> list[JsonObject]:
    return [change.after.as_json() for change in changes if change.after is not None]
