"""A warning about database logins with more privileges than a process needs."""

import structlog

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database
from tenantcron.store.schema.login_rights import excess_rights

log = structlog.get_logger(__name__)


async def warn_of_excess_rights(database: Database, settings: Settings, role: str) -> None:
    """Log a warning if the login can alter tables or bypass triggers or row-level security.

    The embedded server has a single login, so it is not checked.
    """
    if settings.database_url is None:
        return
    async with database.transaction() as connection:
        login, rights = await excess_rights(connection)
    if rights:
        hint = f"log in as {role}, see docs/database.md#privileges"
        log.warning("login_has_excess_rights", login=login, rights=rights, hint=hint)
