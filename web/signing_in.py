"""Signing in and out: a token goes into the session's cookie, and out of it."""

from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tenantcron.service.problems import ApiProblem, unauthenticated
from tenantcron.web.rendering import rendered
from tenantcron.web.sessions import ROOT, SESSION, csrf_of, form_of, keep, service_of

_LONGEST_TOKEN: Final = 3_000
_INCOMPLETE: Final = "paste the whole token, as `tenantcron token create` showed it"


async def show(request: Request) -> Response:
    """Ask for a token."""
    return _asked(request, request.query_params.get("next", ROOT), None)


async def sign_in(request: Request) -> Response:
    """Prove a token, and keep it in the browser."""
    form = await form_of(request)
    token, where = form.get("token", "").strip(), form.get("next", ROOT)
    if not token or len(token) > _LONGEST_TOKEN or not token.isascii():
        return _asked(request, where, unauthenticated(_INCOMPLETE))
    try:
        await service_of(request).callers.with_bearer(token)
    except ApiProblem as problem:
        return _asked(request, where, problem)
    response = RedirectResponse(_inside(where), HTTPStatus.SEE_OTHER)
    keep(request, response, SESSION, token)
    return response


async def sign_out(request: Request) -> Response:
    """Forget the token."""
    await form_of(request)
    response = RedirectResponse(f"{ROOT}/sign-in", HTTPStatus.SEE_OTHER)
    response.delete_cookie(SESSION, path=ROOT)
    return response


def _asked(request: Request, where: str, problem: ApiProblem | None) -> Response:
    response = rendered(
        request,
        "sign_in.html",
        HTTPStatus.OK if problem is None else problem.status,
        next=_inside(where),
        problem=None if problem is None else problem.detail,
        csrf=csrf_of(request),
        visit=None,
    )
    if problem is not None:
        response.headers.update(problem.headers)
        # It would have the browser ask for a name and a password.
        del response.headers["WWW-Authenticate"]
    return response


def _inside(where: str) -> str:
    """Lead to our own pages only."""
    inside = where == ROOT or where.startswith(f"{ROOT}/")
    return where if inside and where.isascii() and where.isprintable() else ROOT
