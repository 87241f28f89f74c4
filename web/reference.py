"""The reference of the REST API at `/docs`, rendered from its OpenAPI description."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from tenantcron.web.rendering import rendered

PATH: Final = "/docs"
_REF: Final = "#/components/schemas/"
_SUCCESS: Final = ("200", "201", "202")


@dataclass(frozen=True, slots=True)
class DescribedValue:
    """A parameter of an operation, or a property of a schema."""

    name: str
    type: Markup
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the API."""

    id: str
    method: str
    path: str
    description: str
    parameters: list[DescribedValue]
    body: Markup | None
    response: Markup
    problems: list[str]


async def show(request: Request) -> Response:
    """Show the reference."""
    description: Mapping[str, Any] = request.app.openapi()
    return rendered(
        request,
        "reference.html",
        visit=None,
        version=description["info"]["version"],
        groups=_groups(description["paths"]),
        schemas={
            name: (schema.get("description", ""), list(_properties(schema)))
            for name, schema in description["components"]["schemas"].items()
        },
    )


def _groups(paths: Mapping[str, Any]) -> dict[str, list[Operation]]:
    """Return the operations by their tag."""
    groups: dict[str, list[Operation]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    return groups


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Operation:
    responses, body = operation["responses"], operation.get("requestBody")
    success = next(responses[status] for status in _SUCCESS if status in responses)
    return Operation(
        operation["operationId"],
        method.upper(),
        path,
        operation["description"],
        [_parameter(parameter) for parameter in operation.get("parameters", ())],
        None if body is None else _content(body),
        _content(success),
        [status for status in responses if status not in _SUCCESS],
    )


def _parameter(parameter: Mapping[str, Any]) -> DescribedValue:
    kind = Markup("{}, {}").format(type_of(parameter["schema"]), parameter["in"])
    return DescribedValue(
        parameter["name"], kind, parameter["required"], parameter.get("description", "")
    )


def _properties(schema: Mapping[str, Any]) -> Iterator[DescribedValue]:
    if "enum" in schema:
        yield DescribedValue("", type_of(schema), True, "")
    for name, value in schema.get("properties", {}).items():
        is_required = name in schema.get("required", ())
        yield DescribedValue(name, type_of(value), is_required, value.get("description", ""))


def _content(part: Mapping[str, Any]) -> Markup:
    """Return the type of a body; all its media types have the same."""
    schema = next(iter(part["content"].values()))["schema"]
    return type_of(schema)


def type_of(schema: Mapping[str, Any]) -> Markup:
    """Describe the type of a value, with links to schemas."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return Markup('<a href="#{0}">{0}</a>').format(name)
    if "anyOf" in schema:
        return Markup(" or ").join(map(type_of, schema["anyOf"]))
    if "enum" in schema:
        values = (Markup("<code>{}</code>").format(value) for value in schema["enum"])
        return Markup(", ").join(values)
    if "items" in schema:
        return Markup("list of {}").format(type_of(schema["items"]))
    kind = schema.get("format") or schema.get("type") or "any value"
    return escape(kind)
