"""A warning of a database server that is not verified by TLS."""

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
    """Log if a machine in between could pose as the database server."""
    found = _found(settings)
    if found is not None:
        log.warning(
            "database_not_verified", hosts=list(found.hosts), sslmode=found.sslmode, hint=_HINT
        )


def unverified_server(settings: Settings) -> str | None:
    """Return the warning as a line for people."""
    found = _found(settings)
    if found is None:
        return None
    hosts = ", ".join(found.hosts)
    return (
        f"warning: the database server {hosts} is not verified (sslmode={found.sslmode}), so a "
        f"machine in between can read the password and all data: {_HINT}"
    )


def _found(settings: Settings) -> Unverified | None:
    url = settings.database_url
    return None if url is None else unverified(target_of(url))
