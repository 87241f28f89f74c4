"""Whether a read of history must be current, or may come from the read replica.

A client asks for the current state with `Cache-Control: no-cache`, which browsers send when a page
is reloaded, and the command line always. After an action in the dashboard a cookie does the same,
for longer than the replica may lag: the browser carries it, so it works in every process.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tenantcron.store.connection.read_replica import MOST_STALE

CHANGED: Final = "tenantcron_changed"
_NO_CACHE: Final = "no-cache"
# The browser counts the seconds from when it gets the cookie, after the change.
_REMEMBERED: Final = 2 * MOST_STALE.seconds


def must_be_current(request: Request) -> bool:
    """Whether a read must include all changes that were made before the request."""
    directives = request.headers.get("cache-control", "").lower().split(",")
    return CHANGED in request.cookies or _NO_CACHE in (part.strip() for part in directives)


def remember_change(response: Response, path: str, *, secure: bool) -> None:
    """Let the next pages of a browser show the change that it has just made."""
    response.set_cookie(
        CHANGED, "1", _REMEMBERED, path=path, httponly=True, samesite="lax", secure=secure
    )
