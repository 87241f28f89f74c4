"""What a command works on: a server or a database, and where that was configured."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChosenServer:
    """A server, and how to get the token for it."""

    url: str
    token: Callable[[], str | None]
    # Where the token comes from, or where to set it.
    token_source: str
    # The option or context that names the server.
    origin: str


@dataclass(frozen=True, slots=True)
class ChosenDatabase:
    """A database; without a URL, the one of the settings or the embedded one."""

    url: str | None = None
    # The embedded one was asked for, whatever the settings say.
    is_embedded: bool = False
