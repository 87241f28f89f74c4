"""TLS to the database: whether libpq verifies the server before it sends the password.

With less than `verify-full`, an attacker on the network can impersonate the server. `prefer`, the
default of libpq, even connects without TLS if the server offers none. Sockets and loopback
addresses need no TLS.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from psycopg import pq

from tenantcron.store.connection.database_urls import DatabaseTarget

_VERIFIED: Final = "verify-full"
_SYSTEM: Final = "system"


@dataclass(frozen=True, slots=True)
class Unverified:
    """Hosts of a URL that are not verified, and the `sslmode` of their connections."""

    hosts: tuple[str, ...]
    sslmode: str


def unverified(target: DatabaseTarget) -> Unverified | None:
    """Return the unverified hosts; None if every host is verified or needs no TLS."""
    # Parameters of the URL override the environment (PGSSLMODE, PGHOST), as in libpq.
    parameters = {**_defaults(), **target.parameters}
    # With the system's CA certificates, libpq requires full verification.
    if parameters.get("sslrootcert") == _SYSTEM:
        return None
    mode = parameters.get("sslmode") or "prefer"
    hosts = (parameters.get("host") or parameters.get("hostaddr") or "").split(",")
    remote = tuple(host for host in hosts if not _is_local(host))
    return Unverified(remote, mode) if remote and mode != _VERIFIED else None


def _defaults() -> Mapping[str, str]:
    try:
        options = pq.Conninfo.get_defaults()
    except MemoryError:  # psycopg raises this for an unreadable service file
        return {}
    return {option.keyword.decode(): option.val.decode() for option in options if option.val}


def _is_local(host: str) -> bool:
    """Whether it is a socket or this machine; without a host libpq uses its default socket."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
