"""The JSON Schemas that ship with the package, read once when they are needed."""

import json
from functools import cache
from pathlib import Path
from typing import Literal, TypedDict, cast

from tenantcron.core.values import JsonValue

SchemaName = Literal["manifest", "policy"]

# The functional form, because these keywords are not Python names.
Schema = TypedDict(
    "Schema",
    {
        "$defs": dict[str, "Schema"],
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
        "anyOf": list["Schema"],
        "oneOf": list["Schema"],
        "default": str | int | bool,
        "x-code": str,
        "x-expects": str,
    },
    total=False,
)


def schema_text(name: SchemaName) -> str:
    """Return the schema as it is published."""
    return Path(__file__).with_name(f"{name}.schema.json").read_text(encoding="utf-8")


@cache
def schema(name: SchemaName) -> Schema:
    """Return the schema as data, with every reference replaced by what it refers to."""
    loaded: dict[str, JsonValue] = json.loads(schema_text(name))
    definitions = cast("dict[str, dict[str, JsonValue]]", loaded["$defs"])
    return cast("Schema", _inlined(loaded, definitions))


def _inlined(part: JsonValue, definitions: dict[str, dict[str, JsonValue]]) -> JsonValue:
    """Follow references; keywords beside one stay in force. No definition refers to itself."""
    if isinstance(part, list):
        return [_inlined(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    own = dict(part)
    name = str(own.pop("$ref", "")).rpartition("/")[2]
    whole = {**definitions[name], **own} if name else own
    return {key: _inlined(item, definitions) for key, item in whole.items()}


@cache
def defaults(name: SchemaName, definition: str | None = None) -> dict[str, str | int | bool]:
    """Return what holds for absent keys, at the root of a schema or in one of its definitions."""
    root = schema(name)
    properties = (root["$defs"][definition] if definition else root)["properties"]
    return {key: part["default"] for key, part in properties.items() if "default" in part}
