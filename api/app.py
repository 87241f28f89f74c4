"""The application of the API: its routes and problems."""

from collections.abc import Iterable, Iterator
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from tenantcron.api import (
    api_tokens,
    audit,
    audit_records,
    bulk,
    callbacks,
    cluster,
    executions,
    keys,
    manifests,
    records,
    schedule_changes,
    schedules,
    status,
    task_lists,
    tasks,
    tenant_source,
    tenants,
    tokens,
    webhooks,
)
from tenantcron.api.description import PREFIX, DescribedApi, operation_id
from tenantcron.api.middleware import Edge
from tenantcron.api.replies import problem_reply
from tenantcron.api.routing import unknown_parameters
from tenantcron.service.problems import ApiProblem, invalid
from tenantcron.service.work import Service

_CODE_OF_STATUS = {404: "TC721", 405: "TC712", 413: "TC706", 415: "TC713"}
_V1 = (
    # First, because routes are tried in order, and programs send far more requests than people.
    *(callbacks, tasks),
    *(cluster, audit, tenants, tenant_source, schedules, executions, manifests, records),
    *(audit_records, task_lists),
    *(schedule_changes, bulk, api_tokens, tokens, webhooks, keys),
)


def create_app(service: Service) -> FastAPI:
    """Return the application that serves a service."""
    app = described_app()
    app.state.service = service
    settings = service.settings
    app.add_middleware(
        Edge,
        timeout=settings.api_timeout,
        hosts=settings.trusted_hosts,
        requests=service.requests,
    )
    app.add_exception_handler(RequestValidationError, _validation_failed)
    app.add_exception_handler(HTTPException, _framework_error)
    return app


def described_app() -> FastAPI:
    """Return the routes and their description, without a service behind them."""
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
    # Without a router in between: each level is matched again for every request.
    for module in _V1:
        app.include_router(module.router, prefix=PREFIX)
    app.include_router(status.router)
    return app


async def _validation_failed(request: Request, error: Exception) -> Response:
    """Report all errors of a request without its values, which may be secrets."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    errors = (_error(*entry["loc"], message=str(entry["msg"])) for entry in found)
    unknown = unknown_parameters(request)
    return problem_reply(
        invalid("the request does not match the API description", *errors, *unknown)
    )


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
