"""The application of the API: its routes and problems."""

from collections.abc import Iterable, Iterator
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from tenantcron.api import (
    cluster,
    executions,
    manifests,
    records,
    schedules,
    status,
    tenants,
    tokens,
)
from tenantcron.api.description import PREFIX, DescribedApi, operation_id
from tenantcron.api.middleware import Edge
from tenantcron.api.replies import problem_reply
from tenantcron.service.problems import ApiProblem, invalid
from tenantcron.service.work import Service

_CODE_OF_STATUS = {404: "TC703", 405: "TC712", 413: "TC706", 415: "TC713"}
_V1 = (cluster, tenants, schedules, executions, manifests, records, tokens)


def create_app(service: Service) -> FastAPI:
    """Return the application that serves a service."""
    app = DescribedApi(
        title="tenantcron",
        version=version("tenantcron"),
        # The documentation pages of FastAPI load scripts from another site.
        docs_url=None,
        redoc_url=None,
        # A redirect would repeat the `Host` of the request, which the caller chooses.
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
    )
    app.state.service = service
    first = APIRouter(prefix=PREFIX)
    for module in _V1:
        first.include_router(module.router)
    app.include_router(first)
    app.include_router(status.router)
    settings = service.settings
    app.add_middleware(Edge, timeout=settings.api_timeout, hosts=settings.trusted_hosts)
    app.add_exception_handler(RequestValidationError, _validation_failed)
    app.add_exception_handler(HTTPException, _framework_error)
    return app


async def _validation_failed(_: Request, error: Exception) -> Response:
    """Report all errors of a request without its values, which may be secrets."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    errors = (_error(*entry["loc"], message=str(entry["msg"])) for entry in found)
    return problem_reply(invalid("the request does not match the API description", *errors))


def _error(location: object, *name: object, message: str) -> dict[str, str]:
    return {"in": str(location), "name": ".".join(map(str, name)), "message": message}


async def _framework_error(request: Request, error: Exception) -> Response:
    # FastAPI wraps exceptions that are raised while it reads the body.
    if isinstance(error.__cause__, ApiProblem):
        return problem_reply(error.__cause__)
    status_code = error.status_code if isinstance(error, HTTPException) else 500
    headers = {"Allow": _allowed(request)} if status_code == 405 else {}
    code = _CODE_OF_STATUS.get(status_code, "TC707" if status_code < 500 else "TC714")
    detail = "there is no resource at this path" if status_code == 404 else str(error)
    return problem_reply(ApiProblem(code, detail, headers=headers))


def _allowed(request: Request) -> str:
    """Return all methods of a path; the framework returns those of the first route only."""
    methods: set[str] = set()
    for route in _routes(request.app.routes):
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return ", ".join(sorted(methods))


def _routes(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    return (route for route in routes if isinstance(route, Route))
