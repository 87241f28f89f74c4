"""The JSON Schemas that ship with the package, read once when they are needed."""

import json
from functools import cache
from pathlib import Path
from typing import Literal, TypedDict

SchemaName = Literal["manifest", "policy"]

# The functional form, because these keywords are not Python names.
Schema = TypedDict(
    "Schema",
    {
        "$defs": dict[str, "Schema"],
        "$ref": str,
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
    """Return the schema as data."""
    loaded: Schema = json.loads(schema_text(name))
    return loaded


@cache
def defaults(name: SchemaName, definition: str | None = None) -> dict[str, str | int | bool]:
    """Return what holds for absent keys, at the root of a schema or in one of its definitions."""
    root = schema(name)
    properties = (root["$defs"][definition] if definition else root)["properties"]
    return {key: part["default"] for key, part in properties.items() if "default" in part}
