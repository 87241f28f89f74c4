"""Sessions of the dashboard and protection against cross-site request forgery.

The session is the API token itself, in a cookie that scripts cannot read and that other sites can
send only by a link. Every request authenticates the token again, so a revoked token is rejected at
once in every process, and the server stores no sessions.

Each browser gets a second cookie with a random value. Every form contains the HMAC of the session
with this value, which another site can neither read nor guess. In addition, the `Origin` and
`Sec-Fetch-Site` headers of a form must be those of this site.
"""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from tenantcron.api.routing import CORRELATION
from tenantcron.service.callers import is_cross_origin, is_loopback
from tenantcron.service.problems import ApiProblem
from tenantcron.service.roles import Permission, may
from tenantcron.service.work import Service, Work

ROOT: Final = "/ui"
SESSION: Final = "tenantcron_session"
BROWSER: Final = "tenantcron_browser"
CSRF_FIELD: Final = "csrf"
_LONGEST_FORM: Final = 10_000
_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a browser: its context and the CSRF token of its forms."""

    work: Work
    csrf: str
    signed_in: bool

    @property
    def name(self) -> str:
        """The id of the viewer."""
        return self.work.caller.actor.id

    @property
    def role(self) -> str:
        """The role of the viewer."""
        grant = self.work.caller.grant
        return f"{grant.role} of {grant.tenant}" if grant.tenant else str(grant.role)

    @property
    def may_operate(self) -> bool:
        """Whether the viewer may use actions."""
        return may(self.work.caller.grant, Permission.OPERATE)


def service_of(request: Request) -> Service:
    """Return the state that all requests share."""
    service: Service = request.app.state.service
    return service


async def visit_of(request: Request) -> Visit:
    """Return the visit; raise ApiProblem if the request is not authenticated."""
    service, session = service_of(request), request.cookies.get(SESSION)
    caller = (
        await service.callers.with_bearer(session)
        if session
        else service.callers.without_token(request)
    )
    correlation_id: UUID = request.scope[CORRELATION]
    work = service.work(caller, correlation_id)
    work.require(Permission.READ)
    return Visit(work, csrf_of(request), signed_in=bool(session))


def browser_of(request: Request) -> str:
    """Return the cookie of the browser; create a new one at most once per request."""
    known = request.cookies.get(BROWSER)
    if known:
        return known
    if not hasattr(request.state, BROWSER):
        setattr(request.state, BROWSER, secrets.token_urlsafe(_BYTES))
    made: str = getattr(request.state, BROWSER)
    return made


def csrf_of(request: Request) -> str:
    """Return the CSRF token for this browser and session."""
    session = request.cookies.get(SESSION, "")
    return hmac.digest(browser_of(request).encode(), session.encode(), "sha256").hex()


async def form_of(request: Request) -> Mapping[str, str]:
    """Read a form of the dashboard; raise ApiProblem for a form of another site."""
    body = await request.body()
    if len(body) > _LONGEST_FORM:
        raise ApiProblem("TC706", f"the limit of a form is {_LONGEST_FORM} bytes")
    form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    expected = csrf_of(request).encode()
    is_ours = hmac.compare_digest(form.get(CSRF_FIELD, "").encode(), expected)
    if BROWSER not in request.cookies or not is_ours or not _same_origin(request):
        raise ApiProblem("TC702", "the form is not from this page: reload the page and try again")
    return form


def _same_origin(request: Request) -> bool:
    """Whether the browser reports that the form is from this site."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    return site == "same-origin" and not is_cross_origin(request)


def set_session_cookie(request: Request, response: Response, name: str, value: str) -> None:
    """Set a session cookie."""
    response.set_cookie(
        name,
        value,
        path=ROOT,
        httponly=True,
        # With `strict`, users who follow a link in a chat or an alert would have to sign in again.
        samesite="lax",
        # Require TLS except on loopback addresses.
        secure=not is_loopback(request),
    )


def set_browser_cookie(request: Request, response: Response) -> None:
    """Set the browser cookie if it is missing."""
    if BROWSER not in request.cookies:
        set_session_cookie(request, response, BROWSER, browser_of(request))
