"""Sessions: who looks at a page, and that a click comes from our own pages.

The session is the API token itself, in a cookie that scripts cannot read and that other sites can
send by a link only. Every request proves it anew, so that a token that was revoked is out at once,
in every process, and nothing has to be kept here.

Each browser gets a second cookie, of chance. What it and the session give together under HMAC is
in every form; another site can neither read nor guess that. Besides, a browser says where a form
comes from, and only our own address counts.
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
    """One request of a browser: what it works with, and what its forms must say."""

    work: Work
    csrf: str
    signed_in: bool

    @property
    def name(self) -> str:
        """Who looks."""
        return self.work.caller.actor.id

    @property
    def role(self) -> str:
        """What they may do."""
        grant = self.work.caller.grant
        return f"{grant.role} of {grant.tenant}" if grant.tenant else str(grant.role)

    @property
    def may_operate(self) -> bool:
        """Whether there are buttons."""
        return may(self.work.caller.grant, Permission.OPERATE)


def service_of(request: Request) -> Service:
    """Return what all requests share."""
    service: Service = request.app.state.service
    return service


async def visit_of(request: Request) -> Visit:
    """Return who looks; a Problem if nobody proves anything."""
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
    """Return the browser's own cookie; a new one is made once per request."""
    known = request.cookies.get(BROWSER)
    if known:
        return known
    if not hasattr(request.state, BROWSER):
        setattr(request.state, BROWSER, secrets.token_urlsafe(_BYTES))
    made: str = getattr(request.state, BROWSER)
    return made


def csrf_of(request: Request) -> str:
    """Return what a form of this browser and session must say."""
    session = request.cookies.get(SESSION, "")
    return hmac.digest(browser_of(request).encode(), session.encode(), "sha256").hex()


async def form_of(request: Request) -> Mapping[str, str]:
    """Read a form that comes from one of our own pages; refuse any other."""
    body = await request.body()
    if len(body) > _LONGEST_FORM:
        raise ApiProblem("TC706", f"a form has at most {_LONGEST_FORM} bytes")
    form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    expected = csrf_of(request).encode()
    is_ours = hmac.compare_digest(form.get(CSRF_FIELD, "").encode(), expected)
    if BROWSER not in request.cookies or not is_ours or not _same_origin(request):
        raise ApiProblem(
            "TC702", "the form is not from this page: load the page again, then repeat it"
        )
    return form


def _same_origin(request: Request) -> bool:
    """Whether the browser says that the form is from our own address."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    return site == "same-origin" and not is_cross_origin(request)


def keep(request: Request, response: Response, name: str, value: str) -> None:
    """Give a cookie to the browser, for as long as it is open."""
    response.set_cookie(
        name,
        value,
        path=ROOT,
        httponly=True,
        # Strict would ask whoever follows a link of a chat or an alert to sign in again.
        samesite="lax",
        # Browsers have no TLS with their own machine; anywhere else a token needs it.
        secure=not is_loopback(request),
    )


def keep_browser(request: Request, response: Response) -> None:
    """Give a browser its own cookie if it has none."""
    if BROWSER not in request.cookies:
        keep(request, response, BROWSER, browser_of(request))
