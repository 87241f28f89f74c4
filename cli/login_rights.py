"""A warning of processes that run with more rights than they need."""

import structlog

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database
from tenantcron.store.schema.login_rights import excess_rights

log = structlog.get_logger(__name__)


async def warn_of_excess_rights(database: Database, settings: Settings, role: str) -> None:
    """Log if the login could change tables or get around triggers and row-level security.

    On the embedded server there is one login only.
    """
    if settings.database_url is None:
        return
    async with database.transaction() as connection:
        login, rights = await excess_rights(connection)
    if rights:
        hint = f"let it log in as {role}, see docs/database.md#rights"
        log.warning("login_has_excess_rights", login=login, rights=rights, hint=hint)
