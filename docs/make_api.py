"""The reference of the REST API, generated from its OpenAPI description.

`pages()` returns a page for each group of operations and one for the schemas, for the documentation
site. A running server shows the same reference at `/docs`.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from tenantcron.api.app import described_app

_REF = "#/components/schemas/"
_SCHEMAS = "schemas"


def pages() -> dict[str, str]:
    """Return the page of each group of operations, and of the schemas, by their names."""
    description = described_app().openapi()
    groups: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            lines = groups.setdefault(operation["tags"][0], [])
            lines += _operation(path, method, operation)
    found = {
        name: "\n".join([f"# API: {name}\n", *lines]) for name, lines in sorted(groups.items())
    }
    return found | {_SCHEMAS: "\n".join(_schemas(description["components"]["schemas"]))}


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {operation['operationId']}\n"
    yield f"```http\n{method.upper()} {path} HTTP/1.1\n```\n"
    yield f"{operation['description']}\n"
    parameters = operation.get("parameters", ())
    if parameters:
        yield from _table("parameter", (_parameter(parameter) for parameter in parameters))
    if "requestBody" in operation:
        yield f"Request body: {_content(operation['requestBody'])}\n"
    yield from _responses(operation["responses"])


def _responses(responses: Mapping[str, Any]) -> Iterator[str]:
    """Show each success with its body; all problems have the same one."""
    for status, response in responses.items():
        if int(status) < HTTPStatus.MULTIPLE_CHOICES:
            yield f"Response: {status} {HTTPStatus(int(status)).phrase}, {_content(response)}\n"
    others = [status for status in responses if int(status) >= HTTPStatus.MULTIPLE_CHOICES]
    if others:
        yield f"Other statuses: {', '.join(others)}\n"


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, str, str]:
    kind = f"{_type(parameter['schema'])}, in {parameter['in']}"
    return (
        f"`{parameter['name']}`",
        kind if parameter["required"] else f"{kind}, optional",
        parameter.get("description", ""),
    )


def _schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    yield "# API: schemas\n"
    yield "The bodies of requests and responses.\n"
    for name, schema in schemas.items():
        yield f"## {name}\n"
        if schema.get("description"):
            yield f"{schema['description']}\n"
        if "enum" in schema:
            yield f"One of {_type(schema)}.\n"
        if "properties" in schema:
            yield from _table("property", _properties(schema))


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, value in schema["properties"].items():
        optional = "" if name in schema.get("required", ()) else ", optional"
        yield f"`{name}`", f"{_type(value)}{optional}", value.get("description", "")


def _table(kind: str, rows: Iterator[tuple[str, str, str]]) -> Iterator[str]:
    found = list(rows)
    is_described = any(description for _, _, description in found)
    yield f"| {kind} | type |" + (" description |" if is_described else "")
    yield "|---|---|" + ("---|" if is_described else "")
    for name, kind_of_value, description in found:
        yield f"| {name} | {kind_of_value} |" + (f" {_cell(description)} |" if is_described else "")
    yield ""


def _content(part: Mapping[str, Any]) -> str:
    """Return the type of a body; all its media types have the same."""
    if not part.get("content"):
        return "no body"
    media, body = next(iter(part["content"].items()))
    shown = _type(body.get("schema", {}))
    return shown if media.endswith("json") else f"{shown}, as `{media}`"


def _type(schema: Mapping[str, Any]) -> str:
    """Describe the type of a value, with links to schemas."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return f"[{name}]({_SCHEMAS}.md#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    return str(schema.get("format") or schema.get("type") or "any value")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
