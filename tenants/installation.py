"""What tenantcron has installed in a database, and how to remove it.

The order matters, because the tenants' tables use functions of the control schema:

1. The tenants' tables, a few tenants per transaction, so that the server's lock table is large
   enough for any number of them. A schema is dropped with them if we created it and it is empty
   then.
2. The roles of handlers, by functions of the control schema.
3. The control schema: all migrations are reverted in one transaction.
4. The role of the API, if no database of the server uses it any more and we may drop it.

Nothing is dropped with CASCADE. An object that depends on our tables stops the removal, and is
named. A removal that was stopped or killed is completed by running it again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg.errors import DependentObjectsStillExist
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.batches import batches
from tenantcron.core.errors import TenantcronError
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import MissingRightsError
from tenantcron.store.connection.locks import MigrationLock, lock_migration, set_lock_timeout
from tenantcron.store.rows import tenants, workers
from tenantcron.store.rows.tenants import TenantRow
from tenantcron.store.schema import api_role, handler_roles, tenant_objects, tenant_tables
from tenantcron.store.schema.handler_roles import KeptRole
from tenantcron.store.schema.tables import CONTROL_SCHEMA
from tenantcron.store.schema.versions import CONTROL_VERSION, control_version
from tenantcron.tenants.removal import remove_tables

_TENANTS_A_TRANSACTION = 20
_PATIENCE = "10s"


class UninstallError(TenantcronError):
    """tenantcron cannot be removed."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What there is to remove."""

    version: str
    # Those that have our tables.
    tenants: tuple[TenantRow, ...]
    # Replicas with a recent heartbeat.
    replicas: int
    has_role: bool
    # Of handlers.
    roles: int


async def find_installation(database: Database) -> Installation | None:
    """Return what there is to remove, None if tenantcron is not installed in the database."""
    async with database.transaction() as connection:
        version = await control_version(connection)
        if version is None:
            return None
        if version != CONTROL_VERSION:
            raise UninstallError(
                f"the database is at {version}, this program can remove {CONTROL_VERSION} only: "
                "use the release that migrated it, or run `tenantcron migrate` first"
            )
        return Installation(
            version,
            await _tenants_with_tables(connection),
            await workers.count_alive(connection),
            await api_role.exists(connection),
            len(await handler_roles.tenants_with_roles(connection)),
        )


async def _tenants_with_tables(connection: AsyncConnection) -> tuple[TenantRow, ...]:
    schemas = await tenant_objects.schemas_with_tables(connection)
    rows = await tenants.list_all(connection)
    return tuple(row for row in rows if row.schema_name in schemas)


async def remove(
    database: Database, found: Installation, removed: Callable[[], None] = lambda: None
) -> list[KeptRole]:
    """Remove everything; return the roles that are kept, and why.

    `removed` is called after each tenant.
    """
    for rows in batches(found.tenants, _TENANTS_A_TRANSACTION):
        await _remove_tenants(database, rows)
        for _ in rows:
            removed()
    kept = await _remove_handler_roles(database)
    await _remove_control(database)
    if not await _remove_role(database):
        reason = "other databases use it, or this role may not drop it"
        kept.append(KeptRole(api_role.NAME, reason))
    return kept


async def _remove_tenants(database: Database, rows: Sequence[TenantRow]) -> None:
    async with database.transaction() as connection:
        await set_lock_timeout(connection, _PATIENCE)
        for row in rows:
            await remove_tables(connection, row)


async def _remove_handler_roles(database: Database) -> list[KeptRole]:
    async with database.transaction() as connection:
        tenant_ids = await handler_roles.tenants_with_roles(connection)
    kept = list[KeptRole | None]()
    # The role that all of them are in goes last.
    for some in batches((*tenant_ids, None), _TENANTS_A_TRANSACTION):
        async with database.transaction() as connection:
            await set_lock_timeout(connection, _PATIENCE)
            kept += [await handler_roles.drop(connection, tenant) for tenant in some]
    return [role for role in kept if role is not None]


async def _remove_control(database: Database) -> None:
    with _refusing():
        async with database.transaction() as connection:
            await lock_migration(connection, MigrationLock.CONTROL)
            await set_lock_timeout(connection, _PATIENCE)
            await connection.run_sync(_downgrade)
            await tenant_tables.drop_control_schema(connection)


def _downgrade(connection: Connection) -> None:
    from tenantcron.migrations.history import history  # noqa: PLC0415 -- Alembic loads slowly

    history("control").downgrade(connection, CONTROL_SCHEMA)


async def _remove_role(database: Database) -> bool:
    try:
        async with database.transaction() as connection:
            return await api_role.drop_unused(connection)
    except MissingRightsError:
        return False


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        if not isinstance(error.orig, DependentObjectsStillExist):
            raise
        detail = "; ".join((error.orig.diag.message_detail or "").splitlines())
        raise UninstallError(
            f"the control schema is in use: {detail}. Drop what depends on it and run it again"
        ) from error
