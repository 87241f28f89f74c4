"""Replies: JSON with an ETag, and the conditions that requests can put on it."""

from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Final

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from tenantcron.service.problems import MEDIA_TYPE, ApiProblem

JSON: Final = "application/json"
ANY: Final = "*"


def etag_of(data: Mapping[str, object]) -> str:
    """Return the fingerprint of what is told: the same words have the same one."""
    return _etag(written(data))


def told(request: Request, data: Mapping[str, object]) -> Response:
    """Reply to a read: 304 without a body if the caller has it already."""
    body = written(data)
    etag = _etag(body)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    if _names(request.headers.get("if-none-match", ""), etag, weakly=True):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type=JSON, headers=headers)


def done(
    data: object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Reply to a write."""
    return repeated(written(data), status, headers)


def repeated(body: bytes, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Reply with what has been written down already."""
    return Response(body, status, headers, JSON)


def refused(problem: ApiProblem) -> Response:
    """Reply with a problem."""
    body = written(problem.body())
    return Response(body, problem.status, dict(problem.headers), MEDIA_TYPE)


def require_match(request: Request, data: Mapping[str, object]) -> None:
    """Refuse a write whose `If-Match` names another state than the present one."""
    condition = request.headers.get("if-match")
    if condition is None or _names(condition, etag_of(data), weakly=False):
        return
    raise ApiProblem("TC705", "it has changed since it was read: read it again and decide anew")


def _names(condition: str, etag: str, *, weakly: bool) -> bool:
    named = [one.strip() for one in condition.split(",")]
    if weakly:
        named = [one.removeprefix("W/") for one in named]
    return etag in named or named == [ANY]


def written(data: object) -> bytes:
    """Write data down the one way that replies have it."""
    return to_json(data)


def _etag(body: bytes) -> str:
    return f'"{sha256(body).hexdigest()[:32]}"'
