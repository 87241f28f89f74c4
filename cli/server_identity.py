"""A warning about a database server whose identity TLS does not verify."""

import structlog

from tenantcron.core.settings import Settings
from tenantcron.store.connection.database_urls import target_of
from tenantcron.store.connection.tls import Unverified, unverified

_HINT = (
    "add sslmode=verify-full and sslrootcert=FILE (or sslrootcert=system) to the database URL, "
    "see docs/database.md#tls"
)

log = structlog.get_logger(__name__)


def warn_of_unverified_server(settings: Settings) -> None:
    """Log a warning if another machine could impersonate the database server."""
    found = _found(settings)
    if found is not None:
        log.warning(
            "database_not_verified", hosts=list(found.hosts), sslmode=found.sslmode, hint=_HINT
        )


def unverified_server(settings: Settings) -> str | None:
    """Return the warning as text, if there is one."""
    found = _found(settings)
    if found is None:
        return None
    hosts = ", ".join(found.hosts)
    return (
        f"warning: the database server {hosts} is not verified (sslmode={found.sslmode}), so "
        f"another machine could impersonate it and read the password and all data: {_HINT}"
    )


def _found(settings: Settings) -> Unverified | None:
    url = settings.database_url
    return None if url is None else unverified(target_of(url))
