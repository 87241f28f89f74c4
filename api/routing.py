"""What all routes share: who asks, which problems they may be answered with, how paths are cut."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Request
from starlette.convertors import Convertor, register_url_convertor

from tenantcron.api.inputs import IdempotencyKey, IfMatch
from tenantcron.service.problems import MEDIA_TYPE, ProblemBody
from tenantcron.service.roles import Permission
from tenantcron.service.work import Service, Work

CORRELATION: Final = "correlation_id"
# FastAPI's own type for what it adds to a description.
Responses = dict[int | str, dict[str, Any]]


class _PathSegment(Convertor[str]):
    """A part of a path up to a slash or a colon, so that `acme:suspend` is never a tenant."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        """Leave it as it is: what it may be is checked where it is used."""
        return value

    def to_string(self, value: str) -> str:
        """Leave it as it is."""
        return value


register_url_convertor("word", _PathSegment())


def _asking(permission: Permission) -> Callable[..., Awaitable[Work]]:
    async def asked(
        request: Request,
    ) -> Work:
        service: Service = request.app.state.service
        correlation_id: UUID = request.scope[CORRELATION]
        work = service.work(await service.callers.of(request), correlation_id)
        work.require(permission)
        return work

    return asked


Reader = Annotated[Work, Depends(_asking(Permission.READ))]
Planner = Annotated[Work, Depends(_asking(Permission.PLAN))]
OperatorOf = Annotated[Work, Depends(_asking(Permission.OPERATE))]
Deployer = Annotated[Work, Depends(_asking(Permission.APPLY))]
Admin = Annotated[Work, Depends(_asking(Permission.MANAGE))]


async def _repeatable(idempotency_key: IdempotencyKey = None) -> None:
    """Describe and check a header that `writes.write` reads."""


async def _guarded(if_match: IfMatch = None) -> None:
    """Describe a header that `replies.require_match` reads."""


REPEATABLE: Final = [Depends(_repeatable)]
GUARDED: Final = [Depends(_repeatable), Depends(_guarded)]

_ALWAYS: Final = (401, 403, 413, 422, 429, 500, 503)


def problems(*more: int) -> Responses:
    """Describe the problems that a route may be answered with, besides those that all may."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({*_ALWAYS, *more})
    }


UNCHANGED: Final[Responses] = {304: {"description": "the caller has it already"}}
READ: Final = UNCHANGED | problems(404)
# Described for every route, rather than declared: what is declared is checked on every request.
BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "an API token (`tenantcron token create`), or an OIDC token",
}
IF_NONE_MATCH: Final = {
    "name": "if-none-match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "the ETag that you have; 304 if nothing has changed",
}
PROBLEM_SCHEMA: Final = {
    "type": "object",
    "description": "What went wrong, as RFC 9457 has it; some problems say more.",
    "required": list(ProblemBody.__annotations__),
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
    },
}
