"""Shared by all pages: authentication, forms and problem pages."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tenantcron.api.inputs import LONGEST_REASON
from tenantcron.core.words import visible
from tenantcron.service.callers import is_loopback
from tenantcron.service.freshness import remember_change
from tenantcron.service.problems import ApiProblem, invalid, problem_of
from tenantcron.service.responses.problem_types import PROBLEMS
from tenantcron.service.roles import Permission
from tenantcron.web.rendering import rendered
from tenantcron.web.sessions import ROOT, SESSION, Visit, form_of, visit_of

ShowPage = Callable[[Request, Visit], Awaitable[Response]]
# Runs an action and returns the URL of the page that shows its effect.
RunAction = Callable[[Request, Visit, Mapping[str, str]], Awaitable[str]]
Endpoint = Callable[[Request], Awaitable[Response]]

SIGN_IN: Final = f"{ROOT}/sign-in"
_NOT_AUTHENTICATED: Final = "TC701"
LONGEST_SEARCH: Final = 64


def page(show: ShowPage) -> Endpoint:
    """Return the endpoint of a page; unauthenticated requests are sent to the sign-in."""

    async def endpoint(request: Request) -> Response:
        return await show(request, await visit_of(request))

    return guarded(endpoint)


def action(act: RunAction) -> Endpoint:
    """Return the endpoint of an action for operators; it redirects to a page with its effect."""

    async def endpoint(request: Request) -> Response:
        visit, form = await visit_of(request), await form_of(request)
        visit.work.require(Permission.OPERATE)
        response = RedirectResponse(await act(request, visit, form), HTTPStatus.SEE_OTHER)
        if visit.work.service.read_replica is not None:
            remember_change(response, ROOT, secure=not is_loopback(request))
        return response

    return guarded(endpoint)


def guarded(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that shows its problems as pages."""

    async def shown(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise  # an internal error, which the middleware logs
            return _problem_response(request, problem)

    return shown


def reason_of(form: Mapping[str, str], *, required: bool) -> str | None:
    """Read the reason of an action."""
    reason = visible(form.get("reason", "")).strip()
    if len(reason) > LONGEST_REASON:
        raise invalid(f"the limit of a reason is {LONGEST_REASON} characters")
    if required and not reason:
        raise invalid("give a reason, which the audit records")
    return reason or None


def searched_text(request: Request) -> str:
    """Return the text to search for; escaped, because Postgres cannot store every character."""
    return visible(request.query_params.get("find", "").strip())[:LONGEST_SEARCH]


def _problem_response(request: Request, problem: ApiProblem) -> Response:
    if problem.code == _NOT_AUTHENTICATED:
        return _to_sign_in(request)
    return problem_page(request, problem)


def problem_page(request: Request, problem: ApiProblem) -> Response:
    """Return the page of a problem."""
    title = (
        PROBLEMS[problem.code].rule.what
        if problem.code in PROBLEMS
        else "The operation was refused."
    )
    response = rendered(
        request,
        "problem.html",
        problem.status,
        title=title,
        detail=problem.detail,
        code=problem.code,
        back=_page_of_action(request) if request.method == "POST" else ROOT,
        visit=None,
    )
    response.headers.update(problem.headers)
    return response


def _to_sign_in(request: Request) -> Response:
    if "hx-request" in request.headers:
        # A live page reports that it cannot update; it does not navigate by itself.
        return Response(status_code=HTTPStatus.UNAUTHORIZED)
    where = quote(_path_and_query(request)) if request.method == "GET" else ROOT
    response = RedirectResponse(f"{SIGN_IN}?next={where}", HTTPStatus.SEE_OTHER)
    if SESSION in request.cookies:
        response.delete_cookie(SESSION, path=ROOT)
    return response


def _path_and_query(request: Request) -> str:
    path, query = request.url.path, request.url.query
    return f"{path}?{query}" if query else path


def _page_of_action(request: Request) -> str:
    """Return the page of an action, whose URL without its last segment it is."""
    return request.url.path.rpartition("/")[0]
