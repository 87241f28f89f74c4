"""The OpenAPI description of the API, for people and for generators of clients."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute

from tenantcron.api.routing import BEARER, IF_NONE_MATCH, PROBLEM_SCHEMA

PREFIX: Final = "/v1"
_REF: Final = "#/components/schemas/"
# FastAPI adds its own error types, which are never sent.
_UNUSED: Final = ("HTTPValidationError", "ValidationError")
_NAMES: Final = {"State": "ExecutionState"}


def operation_id(route: APIRoute) -> str:
    """Return the id of an operation, after which generated clients name their functions."""
    return route.name


class DescribedApi(FastAPI):
    """FastAPI with our problems, names and headers in its OpenAPI description."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI description."""
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(described: dict[str, Any]) -> dict[str, Any]:
    components = described["components"]
    components["securitySchemes"] = {"bearer": BEARER}
    schemas = {**components["schemas"], "Problem": PROBLEM_SCHEMA}
    components["schemas"] = {
        _name(name): schema | {"title": _name(name)}
        for name, schema in sorted(schemas.items())
        if name not in _UNUSED
    }
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            if path.startswith(PREFIX):
                _add_shared(method, operation)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
    renamed: dict[str, Any] = _renamed(described)
    return renamed


def _add_shared(method: str, operation: dict[str, Any]) -> None:
    """Add the security and the headers that all operations share."""
    operation["security"] = [{"bearer": []}]
    if method == "get":
        operation.setdefault("parameters", []).append(IF_NONE_MATCH)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter, which is absent rather than null."""
    if "anyOf" not in schema:
        return schema
    (only,) = (choice for choice in schema["anyOf"] if choice.get("type") != "null")
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**others, **only}


def _renamed(value: Any) -> Any:
    """Return a part of the description with references to the names of its schemas."""
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{_REF}{_name(item.removeprefix(_REF))}" if key == "$ref" else _renamed(item)
        for key, item in value.items()
    }


def _name(schema: str) -> str:
    """Return the public name of a schema: `TenantResponse` is a `Tenant`."""
    return _NAMES.get(schema, schema.removesuffix("Response"))
