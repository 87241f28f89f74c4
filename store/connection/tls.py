"""TLS to the database: whether libpq verifies the server that it sends the password to.

Below `verify-full`, a machine in between can pose as the server. `prefer`, the default of libpq,
even goes on without TLS if the server offers none. Sockets and this machine need no TLS.
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
    """Hosts of a URL that are not verified, and the mode that they are connected to with."""

    hosts: tuple[str, ...]
    sslmode: str


def unverified(target: DatabaseTarget) -> Unverified | None:
    """Return what is not verified; None if every host is, or needs no TLS."""
    # Parameters of the URL go before the environment (PGSSLMODE, PGHOST), as in libpq.
    parameters = {**_defaults(), **target.parameters}
    # libpq verifies by the system's authorities in full, and refuses anything less.
    if parameters.get("sslrootcert") == _SYSTEM:
        return None
    mode = parameters.get("sslmode") or "prefer"
    hosts = (parameters.get("host") or parameters.get("hostaddr") or "").split(",")
    remote = tuple(host for host in hosts if not _is_local(host))
    return Unverified(remote, mode) if remote and mode != _VERIFIED else None


def _defaults() -> Mapping[str, str]:
    try:
        options = pq.Conninfo.get_defaults()
    except MemoryError:  # what psycopg makes of a service file that cannot be read
        return {}
    return {option.keyword.decode(): option.val.decode() for option in options if option.val}


def _is_local(host: str) -> bool:
    """Whether it is a socket or this machine; without a host libpq takes its default socket."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
