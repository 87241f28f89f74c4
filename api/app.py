"""The application: routes, problems, and a description of both."""

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from tenantcron.api import executions, manifests, records, schedules, status, tenants, tokens
from tenantcron.api.middleware import Edge
from tenantcron.api.replies import refused
from tenantcron.api.routing import BEARER, IF_NONE_MATCH, PROBLEM_SCHEMA
from tenantcron.service.problems import ApiProblem, invalid
from tenantcron.service.work import Service

_OF_STATUS = {404: "TC703", 405: "TC712", 413: "TC706", 415: "TC713"}
_PREFIX = "/v1"
_V1 = (tenants, schedules, executions, manifests, records, tokens)


def create_app(service: Service) -> FastAPI:
    """Return the application that serves a service."""
    app = _Described(
        title="tenantcron",
        version=version("tenantcron"),
        # The pages that FastAPI has for people load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        # A redirect names the host that the request named, which may be anyone's.
        redirect_slashes=False,
    )
    app.state.service = service
    first = APIRouter(prefix=_PREFIX)
    for module in _V1:
        first.include_router(module.router)
    app.include_router(first)
    app.include_router(status.router)
    settings = service.settings
    app.add_middleware(Edge, timeout=settings.api_timeout, hosts=settings.trusted_hosts)
    app.add_exception_handler(RequestValidationError, _not_as_described)
    app.add_exception_handler(HTTPException, _of_the_framework)
    return app


class _Described(FastAPI):
    """FastAPI with the shape of our problems in its description."""

    def openapi(self) -> dict[str, Any]:
        """Return the description."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        described = super().openapi()
        schemas = described.setdefault("components", {}).setdefault("schemas", {})
        schemas["ApiProblem"] = PROBLEM_SCHEMA
        # FastAPI describes errors of its own, which are never sent.
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        described["components"]["securitySchemes"] = {"bearer": BEARER}
        for path, operations in described["paths"].items():
            if path.startswith(_PREFIX):
                _complete(operations)
        return described


def _complete(operations: dict[str, Any]) -> None:
    """Add what holds for all operations of a path."""
    for method, operation in operations.items():
        operation["security"] = [{"bearer": []}]
        if method == "get":
            operation.setdefault("parameters", []).append(IF_NONE_MATCH)


async def _not_as_described(_: Request, error: Exception) -> Response:
    """Tell all that is wrong with a request, and nothing of what it said: that may be a secret."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    errors = (_wrong(*one["loc"], message=str(one["msg"])) for one in found)
    return refused(invalid("the request is not as the API describes it", *errors))


def _wrong(where: object, *name: object, message: str) -> dict[str, str]:
    return {"in": str(where), "name": ".".join(map(str, name)), "message": message}


async def _of_the_framework(request: Request, error: Exception) -> Response:
    # What came up while FastAPI read a body is told as what it was.
    if isinstance(error.__cause__, ApiProblem):
        return refused(error.__cause__)
    status_code = error.status_code if isinstance(error, HTTPException) else 500
    headers = {"Allow": _allowed(request)} if status_code == 405 else {}
    code = _OF_STATUS.get(status_code, "TC707" if status_code < 500 else "TC714")
    detail = "there is nothing at this address" if status_code == 404 else str(error)
    return refused(ApiProblem(code, detail, headers=headers))


def _allowed(request: Request) -> str:
    """Return the methods of a path; the framework names those of the first route only."""
    methods: set[str] = set()
    for route in _routes(request.app.routes):
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return ", ".join(sorted(methods))


def _routes(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    return (route for route in routes if isinstance(route, Route))
