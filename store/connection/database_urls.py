"""Database URLs: parsed into connection parameters, and shown without the password."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from tenantcron.core.errors import UsageError
from tenantcron.core.setting_readers import URL_EXPECTED, URL_SCHEMES

# Set the encoding explicitly: the default of a role may not support all characters.
DEFAULTS = {"connect_timeout": "5", "application_name": "tenantcron", "client_encoding": "utf8"}
# The kernel closes a connection whose other end has not acknowledged anything for about 14 s.
# libpq would leave that to the operating system, which takes 15 minutes to two hours.
TCP_DEFAULTS = {
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "12000",
}
_NOT_A_URL = (
    f"the database URL cannot be parsed: expected {URL_EXPECTED}?parameter=value. In a password, "
    "encode / @ : % and ? as %2F %40 %3A %25 and %3F"
)


@dataclass(frozen=True, slots=True)
class DatabaseTarget:
    """A database to connect to."""

    # Parameters of libpq. Hidden in the repr, which ends up in logs: they may contain a password.
    parameters: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        """Return user@host:port/database, with all hosts if there are several."""
        user, name = self.parameters.get("user"), self.parameters.get("dbname", "")
        return f"{user + '@' if user else ''}{','.join(self._places())}/{name}"

    def _places(self) -> list[str]:
        """Return the hosts with their ports; a single port applies to all hosts."""
        hosts = (self.parameters.get("host") or "localhost").split(",")
        ports = [port or "5432" for port in self.parameters.get("port", "5432").split(",")]
        ports = ports * len(hosts) if len(ports) == 1 else ports
        return [f"{host}:{port}" for host, port in zip(hosts, ports, strict=False)]


def target_of(url: str) -> DatabaseTarget:
    """Parse a URL as libpq does; errors do not quote it."""
    if not url.startswith(URL_SCHEMES):
        raise UsageError(_NOT_A_URL)
    try:
        parameters = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    except ProgrammingError:
        # The cause quotes parts of the URL, which may be parts of the password.
        raise UsageError(_NOT_A_URL) from None
    _check(parameters)
    network = TCP_DEFAULTS if _is_network(parameters) else {}
    return DatabaseTarget(DEFAULTS | network | parameters)


def _is_network(parameters: Mapping[str, str]) -> bool:
    """Whether any host is not a socket; without a host libpq uses its default socket."""
    hosts = (parameters.get("hostaddr") or parameters.get("host", "")).split(",")
    return any(host and not host.startswith(("/", "@")) for host in hosts)


def _check(parameters: Mapping[str, str]) -> None:
    """Reject parts of a password that were parsed as something else, before they are shown.

    An unencoded slash in a password turns its rest into a port and a database name, an unencoded at
    sign into a host. A host that begins with an at sign is an abstract socket. Numbers that libpq
    would reject when connecting are rejected here.
    """
    ports = parameters.get("port", "5432").split(",")
    numbers = all(_is_port(port) for port in ports) and all(
        _is_count(parameters.get(name, "0")) for name in ("connect_timeout", *TCP_DEFAULTS)
    )
    hosts = parameters.get("host", "").split(",")
    is_split = any("@" in host[1:] for host in hosts) or "@" in parameters.get("dbname", "")
    if not numbers or is_split:
        raise UsageError(_NOT_A_URL)


def _is_port(text: str) -> bool:
    return not text or (_is_count(text) and 1 <= int(text) <= 65_535)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
