"""Responses in JSON, with ETags and conditional requests."""

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
    """Return the ETag of a response; equal content has an equal ETag."""
    return _etag(encoded(data))


def conditional_reply(request: Request, data: Mapping[str, object]) -> Response:
    """Return a response with an ETag, or 304 if `If-None-Match` has that ETag."""
    body = encoded(data)
    etag = _etag(body)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    if _matches(request.headers.get("if-none-match", ""), etag, weakly=True):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type=JSON, headers=headers)


def json_reply(
    data: object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response."""
    return stored_reply(encoded(data), status, headers)


def stored_reply(body: bytes, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response whose JSON body was encoded before."""
    return Response(body, status, headers, JSON)


def problem_reply(problem: ApiProblem) -> Response:
    """Return the response of a problem."""
    body = encoded(problem.body())
    return Response(body, problem.status, dict(problem.headers), MEDIA_TYPE)


def require_match(request: Request, data: Mapping[str, object]) -> None:
    """Raise ApiProblem if `If-Match` does not have the current ETag."""
    condition = request.headers.get("if-match")
    if condition is None or _matches(condition, etag_of(data), weakly=False):
        return
    raise ApiProblem("TC705", "the resource changed since you read it: fetch it again")


def _matches(condition: str, etag: str, *, weakly: bool) -> bool:
    etags = [part.strip() for part in condition.split(",")]
    if weakly:
        etags = [part.removeprefix("W/") for part in etags]
    return etag in etags or etags == [ANY]


def encoded(data: object) -> bytes:
    """Encode data as JSON."""
    return to_json(data)


def _etag(body: bytes) -> str:
    return f'"{sha256(body).hexdigest()[:32]}"'
