"""What all pages share: who looks, forms that are ours, and problems as pages."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tenantcron.api.inputs import LONGEST_REASON
from tenantcron.core.words import visible
from tenantcron.service.problems import ApiProblem, invalid, problem_of
from tenantcron.service.responses.problem_types import PROBLEMS
from tenantcron.service.roles import Permission
from tenantcron.web.rendering import rendered
from tenantcron.web.sessions import ROOT, SESSION, Visit, form_of, visit_of

Page = Callable[[Request, Visit], Awaitable[Response]]
Click = Callable[[Request, Visit, Mapping[str, str]], Awaitable[str]]
Endpoint = Callable[[Request], Awaitable[Response]]

SIGN_IN: Final = f"{ROOT}/sign-in"
_NOT_AUTHENTICATED: Final = "TC701"


def page(show: Page) -> Endpoint:
    """Return the endpoint of a page: who proves nothing is asked to sign in."""

    async def endpoint(request: Request) -> Response:
        return await show(request, await visit_of(request))

    return guarded(endpoint)


def click(act: Click) -> Endpoint:
    """Return the endpoint of a button of operators; it leads to where the effect is seen."""

    async def endpoint(request: Request) -> Response:
        visit, form = await visit_of(request), await form_of(request)
        visit.work.require(Permission.OPERATE)
        return RedirectResponse(await act(request, visit, form), HTTPStatus.SEE_OTHER)

    return guarded(endpoint)


def guarded(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint whose problems are pages, too."""

    async def shown(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise  # nobody has foreseen it: the edge logs it
            return _told(request, problem)

    return shown


def reason_of(form: Mapping[str, str], *, required: bool) -> str | None:
    """Read why something is done."""
    reason = visible(form.get("reason", "")).strip()
    if len(reason) > LONGEST_REASON:
        raise invalid(f"a reason has at most {LONGEST_REASON} characters")
    if required and not reason:
        raise invalid("say why: it goes on record, and others will read it")
    return reason or None


def _told(request: Request, problem: ApiProblem) -> Response:
    if problem.code == _NOT_AUTHENTICATED:
        return _to_sign_in(request)
    return problem_page(request, problem)


def problem_page(request: Request, problem: ApiProblem) -> Response:
    """Return a page about a problem."""
    title = PROBLEMS[problem.code].rule.what if problem.code in PROBLEMS else "It was refused."
    response = rendered(
        request,
        "problem.html",
        problem.status,
        title=title,
        detail=problem.detail,
        code=problem.code,
        back=_page_of_click(request) if request.method == "POST" else ROOT,
        visit=None,
    )
    response.headers.update(problem.headers)
    return response


def _to_sign_in(request: Request) -> Response:
    if "hx-request" in request.headers:
        # The page that lives says that it lost touch; it is for the reader to leave it.
        return Response(status_code=HTTPStatus.UNAUTHORIZED)
    where = quote(_wanted(request)) if request.method == "GET" else ROOT
    response = RedirectResponse(f"{SIGN_IN}?next={where}", HTTPStatus.SEE_OTHER)
    if SESSION in request.cookies:
        response.delete_cookie(SESSION, path=ROOT)
    return response


def _wanted(request: Request) -> str:
    path, query = request.url.path, request.url.query
    return f"{path}?{query}" if query else path


def _page_of_click(request: Request) -> str:
    """Return the page that a button is on; what it does is the last part of its address."""
    return request.url.path.rpartition("/")[0]
