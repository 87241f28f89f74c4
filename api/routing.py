"""Shared by all routes: authentication, documented problems, path segments."""

from collections.abc import Awaitable, Callable
from functools import wraps
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from starlette.convertors import Convertor, register_url_convertor

from tenantcron.api.inputs import IdempotencyKey, IfMatch
from tenantcron.core.suggest import close_match
from tenantcron.core.words import visible
from tenantcron.service.problems import MEDIA_TYPE, ProblemBody, invalid
from tenantcron.service.roles import Permission
from tenantcron.service.work import Service, Work

CORRELATION: Final = "correlation_id"
# The type of FastAPI for documented responses.
Responses = dict[int | str, dict[str, Any]]


class _PathSegment(Convertor[str]):
    """A path segment up to a slash or a colon, so that `acme:suspend` is never a tenant."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        """Return the segment as it is; the route validates it."""
        return value

    def to_string(self, value: str) -> str:
        """Return the segment as it is."""
        return value


register_url_convertor("word", _PathSegment())


class StrictRoute(APIRoute):
    """A route that rejects unknown query parameters.

    A misspelt filter would otherwise be ignored, and the response would contain too much. The check
    follows the authentication and the validation, which reports unknown parameters together with
    all other errors of the request.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, _strict(endpoint), **options)
        fields = get_flat_params(self.dependant)
        self.query_parameters = tuple(
            field.alias for field in fields if isinstance(field.field_info, params.Query)
        )


def _strict(endpoint: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    @wraps(endpoint)
    async def checked(request: Request, **parameters: Any) -> Response:
        if errors := unknown_parameters(request):
            raise invalid("the request has unknown query parameters", *errors)
        return await endpoint(request=request, **parameters)

    return checked


def unknown_parameters(request: Request) -> list[dict[str, str]]:
    """Return an error for each query parameter that the route does not have."""
    route = request.scope.get("route")
    if not isinstance(route, StrictRoute):
        return []
    known = route.query_parameters
    return [
        {"in": "query", "name": visible(name), "message": _unknown(name, known)}
        for name in dict.fromkeys(request.query_params)
        if name not in known
    ]


def _unknown(name: str, known: tuple[str, ...]) -> str:
    meant = close_match(name, known)
    if meant:
        return f"unknown parameter: did you mean `{meant}`?"
    named = ", ".join(f"`{parameter}`" for parameter in known) or "none"
    return f"unknown parameter: this request takes {named}"


def _authenticated(permission: Permission) -> Callable[..., Awaitable[Work]]:
    async def authenticate(
        request: Request,
    ) -> Work:
        service: Service = request.app.state.service
        correlation_id: UUID = request.scope[CORRELATION]
        work = service.work(await service.callers.of(request), correlation_id)
        work.require(permission)
        return work

    return authenticate


Reader = Annotated[Work, Depends(_authenticated(Permission.READ))]
TaskReader = Annotated[Work, Depends(_authenticated(Permission.READ_TASKS))]
Planner = Annotated[Work, Depends(_authenticated(Permission.PLAN))]
Submitter = Annotated[Work, Depends(_authenticated(Permission.SUBMIT))]
OperatorOf = Annotated[Work, Depends(_authenticated(Permission.OPERATE))]
Deployer = Annotated[Work, Depends(_authenticated(Permission.APPLY))]
Admin = Annotated[Work, Depends(_authenticated(Permission.MANAGE))]


async def _repeatable(idempotency_key: IdempotencyKey = None) -> None:
    """Document and validate the header that `writes.write` reads."""


async def _guarded(if_match: IfMatch = None) -> None:
    """Document the header that `replies.require_match` reads."""


REPEATABLE: Final = [Depends(_repeatable)]
GUARDED: Final = [Depends(_repeatable), Depends(_guarded)]

_ALWAYS: Final = (401, 403, 413, 422, 429, 500, 503)


def problems(*more: int) -> Responses:
    """Document the problems of a route, in addition to those of all routes."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({*_ALWAYS, *more})
    }


UNCHANGED: Final[Responses] = {304: {"description": "Not Modified"}}
READ: Final = UNCHANGED | problems(404)
# Added to the description of every route; a declared header would be parsed on every request.
BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API token (`tenantcron token create`) or an OIDC token.",
}
IF_NONE_MATCH: Final = {
    "name": "if-none-match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The ETag of the cached resource; 304 if it is unchanged.",
}
PROBLEM_SCHEMA: Final = {
    "type": "object",
    "description": "Problem details (RFC 9457); some problems have more members.",
    "required": list(ProblemBody.__annotations__),
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "problem": {"type": "string", "description": "What is wrong, without the hint."},
        "hint": {"type": "string", "description": "What to do next, if it is known."},
    },
}
