"""The URL of a server and the token for it, checked before anything is sent."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tenantcron.core.errors import UsageError

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class UnsendableTokenError(UsageError):
    """The token cannot be sent; the message does not contain it."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server and the token to send to it; the token is not shown."""

    url: str
    _token: str | None

    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    @property
    def has_token(self) -> bool:
        """Whether there is a token."""
        return self._token is not None

    def __repr__(self) -> str:
        return f"ServerAddress({self.url!r})"


def server_address(url: str, token: str | None) -> ServerAddress:
    """Check a URL and a token; a token is never sent over the network without TLS."""
    scheme, host = _parts(url)
    if scheme not in ("http", "https") or not host:
        raise UsageError(f"{url!r} is not a URL such as https://cron.internal")
    if "@" in url or "?" in url:
        raise UsageError(
            f"{url!r} has a user, a password or a query: give only the scheme and the host"
        )
    checked = _checked(token)
    if scheme == "http" and host not in _LOOPBACK and checked:
        raise UsageError(f"{url}: http would expose the token; use https")
    return ServerAddress(url.rstrip("/"), checked)


def _checked(token: str | None) -> str | None:
    """Return the token without surrounding white space."""
    text = (token or "").strip()
    # httpx would print the entire header that it cannot send.
    if not text.isascii() or not text.isprintable():
        raise UnsendableTokenError("the token has characters that tokens never have")
    return text or None


def _parts(url: str) -> tuple[str, str | None]:
    """Return the scheme and host of a URL; both are empty if it is malformed."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # urlsplit validates the port only here
    except ValueError:
        return "", None
    return parts.scheme, parts.hostname
