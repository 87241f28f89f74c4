"""Requests as data: what to send, and the type of the response."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Generic, Literal, TypeVar
from urllib.parse import quote

from tenantcron.core.values import JsonObject

T = TypeVar("T")

Method = Literal["GET", "POST", "PATCH"]
Query = Sequence[tuple[str, str]]
Value = str | int | bool | datetime | None

PREFIX: Final = "/v1"
# The largest page that the API returns.
LARGEST_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[T]):
    """A request, and the shape of its response."""

    method: Method
    path: str
    shape: type[T]
    query: Query = ()
    # A JSON body, or the content of a file with its media type in `headers`.
    body: JsonObject | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_write(self) -> bool:
        """Whether it changes something, so that it needs an idempotency key to be repeated."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class ListCall(Generic[T]):
    """A request for a list, which the API returns in pages; `name` is the key of the items."""

    path: str
    name: str
    # The type of an item.
    item: type[T]
    query: Query = ()

    def page(self, size: int, after: str | None) -> ApiCall[dict[str, object]]:
        """Return the request for a page."""
        position = [("after", after)] if after is not None else []
        query = [*self.query, ("limit", str(size)), *position]
        return ApiCall("GET", self.path, dict[str, object], query)


def path_of(*parts: str) -> str:
    """Return the path of a resource; its parts are escaped."""
    return "/".join((PREFIX, *(quote(part, safe=":") for part in parts)))


def query_of(**values: Value | Sequence[str]) -> Query:
    """Return the query parameters that have a value; a list is repeated."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if value is None:
            continue
        many = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        pairs += [(name, _text(item)) for item in many]
    return pairs


def body_of(**values: Value) -> JsonObject:
    """Return a body with the members that have a value."""
    return {
        name: _text(value) if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }


def with_headers(call: ApiCall[T], headers: Mapping[str, str]) -> ApiCall[T]:
    """Return a call with additional headers."""
    return replace(call, headers={**call.headers, **headers})


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
