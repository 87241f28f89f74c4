"""Migrate the control schema and all tenant schemas.

Locks:

1. **Control.** One transaction takes the lock CONTROL and only then reads the version, runs missing
   migrations and stamps it. A second run waits, reads the new version and does nothing. The lock is
   not taken if the version is current, as in nearly every start.
2. **Tenants.** A query per fifty tenants, each in its own transaction, finds the outdated ones.
   Each of these has its own transaction, which takes the lock TENANT for that tenant and reads its
   version again before it acts. A few run at a time.

Failures:

- A tenant's migration fails: its transaction is rolled back, it is reported, and the others
  continue. Run it again, and only the missing migrations are run.
- The tenant's tables are in use: a migration waits for them at most `_PATIENCE`, because all other
  sessions that need them queue behind it. Then it fails as above.
- Killed anywhere: every schema is at one of its versions, never in between. The database releases
  the locks. Run it again.
- Two runs at once: each tenant is migrated by one of them, the other finds it current.
- A schema is missing, or was not created by tenantcron: reported as failed, not touched.
- A schema is newer than this program: left as it is. The previous release works with every
  migration, and a deployment runs both for a while.
- The control migration fails: nothing else is tried.
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import TenantcronError
from tenantcron.migrations.outcome import (
    ControlOutcome,
    MigrationOutcome,
    TenantMigrationState,
    TenantOutcome,
)
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.locks import MigrationLock, lock_migration, set_lock_timeout
from tenantcron.store.schema import api_role
from tenantcron.store.schema.tables import CONTROL_SCHEMA
from tenantcron.store.schema.tenant_tables import close_functions, ensure_control_schema
from tenantcron.store.schema.tenant_versions import TenantVersion, tenant_versions, version_in
from tenantcron.store.schema.versions import CONTROL_VERSION, TENANT_VERSION, control_version

_PATIENCE = "10s"
_SCHEMAS_A_TRANSACTION = 50

Kind = Literal["control", "tenant"]
# Called with each outcome, and the total number.
OnProgress = Callable[[TenantOutcome, int], None]


def _ignore_progress(_: TenantOutcome, __: int) -> None:
    """Ignore progress."""


async def migrate(
    database: Database, *, on_progress: OnProgress = _ignore_progress, concurrency: int = 4
) -> MigrationOutcome:
    """Migrate the control schema, then the tenants."""
    control = await migrate_control(database)
    tenants = await migrate_tenants(database, on_progress=on_progress, concurrency=concurrency)
    await open_to_api(database)
    return MigrationOutcome(control, tenants)


async def open_to_api(database: Database) -> None:
    """Create the role of the API if that is allowed now, and grant it missing rights."""
    async with database.transaction() as connection:
        closed = await api_role.closed_schemas(connection) if await _has_role(connection) else []
    for start in range(0, len(closed), _SCHEMAS_A_TRANSACTION):
        async with database.transaction() as connection:
            some = closed[start : start + _SCHEMAS_A_TRANSACTION]
            await api_role.open_schemas(connection, some)


async def _has_role(connection: AsyncConnection) -> bool:
    """Whether the role exists; a lock keeps concurrent runs from changing the same rights."""
    await lock_migration(connection, MigrationLock.CONTROL)
    return await api_role.ensure(connection)


async def migrate_control(database: Database) -> ControlOutcome:
    """Migrate the control schema; two queries if there is nothing to do."""
    async with database.transaction() as connection:
        before = await control_version(connection)
        if before is not None and before >= CONTROL_VERSION:
            return ControlOutcome(before, before)
        await lock_migration(connection, MigrationLock.CONTROL)
        before = await control_version(connection)
        if before is None or before < CONTROL_VERSION:
            await set_lock_timeout(connection, _PATIENCE)
            await ensure_control_schema(connection)
            await connection.run_sync(_upgrade, "control", CONTROL_SCHEMA)
            await close_functions(connection)
        return ControlOutcome(before, max(before or "", CONTROL_VERSION))


async def migrate_tenants(
    database: Database, *, on_progress: OnProgress = _ignore_progress, concurrency: int = 4
) -> tuple[TenantOutcome, ...]:
    """Migrate outdated tenants, several at a time; return all, ordered by id."""
    found = await tenant_versions(database)
    slots = asyncio.Semaphore(concurrency)

    async def bring_up_to_date(tenant: TenantVersion) -> TenantOutcome:
        async with slots:
            outcome = _without_migration(tenant) or await _migrate_tenant(database, tenant)
        on_progress(outcome, len(found))
        return outcome

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bring_up_to_date(tenant)) for tenant in found]
    return tuple(task.result() for task in tasks)


def _without_migration(tenant: TenantVersion) -> TenantOutcome | None:
    """Return the outcome of a tenant that needs no migration or cannot have one."""
    if tenant.broken is not None:
        return TenantOutcome(tenant.tenant, TenantMigrationState.FAILED, tenant.broken)
    return TenantOutcome(tenant.tenant, TenantMigrationState.CURRENT) if tenant.is_current else None


async def _migrate_tenant(database: Database, tenant: TenantVersion) -> TenantOutcome:
    """Migrate one tenant in its own transaction; a failure becomes its outcome."""
    try:
        async with database.transaction() as connection:
            state = await _migrate_schema(connection, tenant.schema)
    except (DBAPIError, TenantcronError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return TenantOutcome(tenant.tenant, TenantMigrationState.FAILED, first_line(cause))
    return TenantOutcome(tenant.tenant, state)


async def _migrate_schema(connection: AsyncConnection, schema: str) -> TenantMigrationState:
    await lock_migration(connection, MigrationLock.TENANT, schema)
    version = await version_in(connection, schema)
    if version is not None and version >= TENANT_VERSION:
        return TenantMigrationState.CURRENT
    await set_lock_timeout(connection, _PATIENCE)
    await connection.run_sync(_upgrade, "tenant", schema)
    return TenantMigrationState.MIGRATED


def _upgrade(connection: Connection, kind: Kind, schema: str) -> None:
    # A start without pending migrations does not import Alembic.
    from tenantcron.migrations.history import history  # noqa: PLC0415 -- see above

    history(kind).upgrade(connection, schema)
