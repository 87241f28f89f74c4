"""Where the database is: a URL read into connection parameters, and named without its password."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from tenantcron.core.errors import UsageError
from tenantcron.core.settings import URL_EXPECTED, URL_SCHEMES

# Without the encoding, a role's own would hold: text that it lacks could be neither sent nor read.
DEFAULTS = {"connect_timeout": "10", "application_name": "tenantcron", "client_encoding": "utf8"}
_NOT_A_URL = (
    f"the database URL cannot be read: expected {URL_EXPECTED}?parameter=value. In a password, "
    "/ @ : % and ? are written %2F %40 %3A %25 and %3F"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A database to connect to."""

    # What libpq is told; it may hold a password, and a repr ends up in logs.
    parameters: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        """Name the place as user@host:port/database."""
        user, host = self.parameters.get("user"), self.parameters.get("host", "localhost")
        port, name = self.parameters.get("port", "5432"), self.parameters.get("dbname", "")
        return f"{user + '@' if user else ''}{host}:{port}/{name}"


def target_of(url: str) -> Target:
    """Read a URL the way libpq does; what is wrong with it is told without quoting it."""
    if not url.startswith(URL_SCHEMES):
        raise UsageError(_NOT_A_URL)
    try:
        parameters = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    except ProgrammingError:
        # The cause quotes parts of the URL, which may be parts of the password.
        raise UsageError(_NOT_A_URL) from None
    _check(parameters)
    return Target(DEFAULTS | parameters)


def _check(parameters: Mapping[str, str]) -> None:
    """A password with a bare slash ends up as a port and a database name: say so before it shows.

    A number that libpq would refuse at connect time is refused here, as wrong use.
    """
    ports = parameters.get("port", "5432").split(",")
    numbers = all(_is_port(port) for port in ports) and _is_count(
        parameters.get("connect_timeout", "0")
    )
    if not numbers or "@" in parameters.get("dbname", ""):
        raise UsageError(_NOT_A_URL)


def _is_port(text: str) -> bool:
    return not text or (_is_count(text) and 1 <= int(text) <= 65_535)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
