"""The JSON Schemas of the package, read once on first use."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from tenantcron.core.values import JsonObject, JsonValue

SchemaName = Literal["manifest", "policy"]

# Only type checkers need it, and building it is slower than reading the schema.
if TYPE_CHECKING:
    from typing import TypedDict

    # The functional form, because these keywords are not Python names.
    Schema = TypedDict(
        "Schema",
        {
            "$defs": dict[str, "Schema"],
            "title": str,
            "type": str,
            "enum": list[str],
            "const": str | int,
            "pattern": str,
            "minLength": int,
            "maxLength": int,
            "minimum": float,
            "maximum": float,
            "items": "Schema",
            "minItems": int,
            "uniqueItems": bool,
            "properties": dict[str, "Schema"],
            "required": list[str],
            "additionalProperties": "bool | Schema",
            "patternProperties": dict[str, "Schema"],
            "propertyNames": "Schema",
            "minProperties": int,
            "maxProperties": int,
            "anyOf": list["Schema"],
            "default": str | int | bool,
            "x-code": str,
            "x-expects": str,
            "x-hint": str,
            "x-one-of": list[str],
        },
        total=False,
    )


def schema_text(name: SchemaName) -> str:
    """Return the schema as it is published."""
    return (Path(__file__).parents[1] / f"{name}.schema.json").read_text(encoding="utf-8")


@cache
def schema(name: SchemaName) -> Schema:
    """Return the schema as data, with all references resolved."""
    loaded: dict[str, JsonValue] = json.loads(schema_text(name))
    definitions = cast("JsonObject", loaded.pop("$defs"))
    done: JsonObject = {}
    for definition in definitions:
        _definition(definition, definitions, done)
    return cast("Schema", {"$defs": done, **_inlined_object(loaded, definitions, done)})


def _definition(name: str, definitions: JsonObject, done: JsonObject) -> JsonObject:
    """Inline a definition once for all references. No definition refers to itself."""
    if name not in done:
        done[name] = _inlined(definitions[name], definitions, done)
    return cast("JsonObject", done[name])


def _inlined(part: JsonValue, definitions: JsonObject, done: JsonObject) -> JsonValue:
    if isinstance(part, dict):
        return _inlined_object(part, definitions, done)
    if isinstance(part, list):
        return [_inlined(item, definitions, done) for item in part]
    return part


def _inlined_object(part: JsonObject, definitions: JsonObject, done: JsonObject) -> JsonObject:
    """Resolve a reference; keywords next to it remain."""
    own = {key: _inlined(item, definitions, done) for key, item in part.items() if key != "$ref"}
    if "$ref" not in part:
        return own
    name = str(part["$ref"]).rpartition("/")[2]
    return {**_definition(name, definitions, done), **own}


@cache
def defaults(name: SchemaName, definition: str | None = None) -> dict[str, str | int | bool]:
    """Return the defaults of keys at the root of a schema or in one of its definitions."""
    root = schema(name)
    properties = (root["$defs"][definition] if definition else root)["properties"]
    return {key: part["default"] for key, part in properties.items() if "default" in part}
