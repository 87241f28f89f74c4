"""Sign-in and sign-out: set and delete the session cookie with the token."""

from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tenantcron.service.problems import ApiProblem, unauthenticated
from tenantcron.web.rendering import rendered
from tenantcron.web.sessions import ROOT, SESSION, csrf_of, form_of, service_of, set_session_cookie

_LONGEST_TOKEN: Final = 3_000
_INCOMPLETE: Final = "paste the complete token that `tenantcron token create` printed"


async def show(request: Request) -> Response:
    """Show the sign-in form."""
    return _form(request, request.query_params.get("next", ROOT), None)


async def sign_in(request: Request) -> Response:
    """Authenticate a token and store it in a cookie."""
    form = await form_of(request)
    token, where = form.get("token", "").strip(), form.get("next", ROOT)
    if not token or len(token) > _LONGEST_TOKEN or not token.isascii():
        return _form(request, where, unauthenticated(_INCOMPLETE))
    try:
        await service_of(request).callers.with_bearer(token)
    except ApiProblem as problem:
        return _form(request, where, problem)
    response = RedirectResponse(_inside(where), HTTPStatus.SEE_OTHER)
    set_session_cookie(request, response, SESSION, token)
    return response


async def sign_out(request: Request) -> Response:
    """Delete the session cookie."""
    await form_of(request)
    response = RedirectResponse(f"{ROOT}/sign-in", HTTPStatus.SEE_OTHER)
    response.delete_cookie(SESSION, path=ROOT)
    return response


def _form(request: Request, where: str, problem: ApiProblem | None) -> Response:
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
        # With it, the browser would ask for a user name and a password.
        del response.headers["WWW-Authenticate"]
    return response


def _inside(where: str) -> str:
    """Return a path of the dashboard; replace any other path."""
    inside = where == ROOT or where.startswith(f"{ROOT}/")
    return where if inside and where.isascii() and where.isprintable() else ROOT
