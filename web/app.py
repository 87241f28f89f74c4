"""The application of the server: the REST API and the dashboard."""

from http import HTTPStatus

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tenantcron.api.app import create_app as create_api
from tenantcron.service.problems import ApiProblem
from tenantcron.service.work import Service
from tenantcron.web import (
    executions,
    overview,
    reference,
    schedule_search,
    schedules,
    signing_in,
    tasks,
    tenants,
)
from tenantcron.web.load_ahead import LoadAhead
from tenantcron.web.rendering import static_file
from tenantcron.web.routing import Endpoint, action, guarded, page, problem_page
from tenantcron.web.sessions import ROOT

_SCHEDULE = "/tenants/{tenant}/schedules/{schedule}"
_EXECUTION = "/executions/{execution}"


def create_app(service: Service) -> FastAPI:
    """Return the application with the API and the dashboard."""
    app = create_api(service)
    app.state.load_ahead = LoadAhead()
    app.router.routes.extend(_routes())
    return app


def _routes() -> list[Route]:
    return [
        Route("/", _to_overview),
        Route(reference.PATH, guarded(reference.show)),
        Route(ROOT, page(overview.show)),
        Route(f"{ROOT}/sign-in", guarded(signing_in.show)),
        _posted("/sign-in", guarded(signing_in.sign_in)),
        _posted("/sign-out", guarded(signing_in.sign_out)),
        Route(f"{ROOT}/static/{{name}}", _static),
        Route(f"{ROOT}/schedules", page(schedule_search.show)),
        Route(f"{ROOT}/tenants", page(tenants.show_list)),
        Route(f"{ROOT}/tenants/{{tenant}}", page(tenants.show)),
        Route(f"{ROOT}/tenants/{{tenant}}/difference", page(tenants.show_difference)),
        Route(f"{ROOT}/tenants/{{tenant}}/tasks", page(tasks.show_list)),
        Route(f"{ROOT}{_SCHEDULE}", page(schedules.show)),
        _posted(f"{_SCHEDULE}/pause", action(schedules.pause)),
        _posted(f"{_SCHEDULE}/resume", action(schedules.resume)),
        _posted(f"{_SCHEDULE}/trigger", action(schedules.trigger)),
        Route(f"{ROOT}{_EXECUTION}", page(executions.show)),
        _posted(f"{_EXECUTION}/retry", action(executions.retry)),
        _posted(f"{_EXECUTION}/cancel", action(executions.cancel)),
        Route(f"{ROOT}/{{rest:path}}", _not_found),
    ]


def _posted(path: str, endpoint: Endpoint) -> Route:
    return Route(f"{ROOT}{path}", endpoint, methods=["POST"])


async def _to_overview(_: Request) -> Response:
    return RedirectResponse(ROOT, HTTPStatus.SEE_OTHER)


async def _static(request: Request) -> Response:
    found = static_file(request.path_params["name"])
    return found if found is not None else await _not_found(request)


async def _not_found(request: Request) -> Response:
    return problem_page(request, ApiProblem("TC703", "there is no page at this path"))
