"""Database logins of handlers: each handler logs in as the role of its tenant.

The first handler of a tenant in a process ensures that the role exists and has its privileges. This
uses the scheduler's own connections. It is repeated when a login fails or a privilege was missing.
Plain handlers call from their thread and wait for the event loop.

This fails closed: without the role a handler gets no connection, and an error with the fix. The
first such error is also logged.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from datetime import timedelta
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from tenantcron.core.names import TenantId
from tenantcron.store.connection.engine import Database
from tenantcron.store.schema import handler_roles
from tenantcron.store.schema.handler_roles import HandlerRoleError, Login

# How long a plain handler waits for the event loop.
_PATIENCE: Final = timedelta(seconds=30)

log: FilteringBoundLogger = structlog.get_logger()


class HandlerLogins:
    """The logins of one process. Its connections belong to the event loop that created it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._known: dict[TenantId, Login] = {}
        self._has_warned = False

    async def get(self, tenant: TenantId, *, repair: bool = False) -> Login:
        """Ensure that the role exists, and return its login; `repair` sets the password again."""
        known = None if repair else self._known.get(tenant)
        if known is not None:
            return known
        if asyncio.get_running_loop() is self._loop:
            return await self._ensured(tenant, repair=repair)
        # A plain handler may run its own event loop in its thread.
        return await asyncio.to_thread(self.get_plain, tenant, repair=repair)

    def get_plain(self, tenant: TenantId, *, repair: bool = False) -> Login:
        """Return the login in a plain thread."""
        known = None if repair else self._known.get(tenant)
        return known or self._awaited(self._ensured(tenant, repair=repair))

    def forget(self, tenant: TenantId) -> None:
        """Check the role's privileges before its next login."""
        self._known.pop(tenant, None)

    async def _ensured(self, tenant: TenantId, *, repair: bool) -> Login:
        try:
            async with self._database.transaction() as connection:
                login = await handler_roles.ensure(connection, tenant, set_password=repair)
        except HandlerRoleError as error:
            self._warn(tenant, error)
            raise
        self._known[tenant] = login
        return login

    def _awaited(self, ensuring: Coroutine[object, object, Login]) -> Login:
        try:
            future = asyncio.run_coroutine_threadsafe(ensuring, self._loop)
        except RuntimeError:
            ensuring.close()
            raise HandlerRoleError("no connection: the scheduler has stopped") from None
        try:
            return future.result(_PATIENCE.total_seconds())
        except CancelledError:
            raise HandlerRoleError("no connection: the scheduler is shutting down") from None
        except TimeoutError:
            future.cancel()
            raise HandlerRoleError(f"no connection within {_PATIENCE.seconds} s") from None

    def _warn(self, tenant: TenantId, error: HandlerRoleError) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("handler_role_missing", tenant=tenant, error=str(error))
