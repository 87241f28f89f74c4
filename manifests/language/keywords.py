"""Check plain values against the keywords of a JSON Schema."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenantcron.core.values import JsonValue
    from tenantcron.manifests.language.schemas import Schema

# Without float, whose type depends on the value.
_TYPE_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    str: "string",
    list: "array",
    dict: "object",
}


def is_allowed(rule: Schema, value: JsonValue) -> bool:
    """Whether a plain value of the right type satisfies every keyword."""
    if "enum" in rule and value not in rule["enum"]:
        return False
    if "const" in rule and value != rule["const"]:
        return False
    if isinstance(value, str):
        matches = "pattern" not in rule or compiled(rule["pattern"]).fullmatch(value) is not None
        return matches and _within(rule.get("minLength"), len(value), rule.get("maxLength"))
    if isinstance(value, int | float):
        return _within(rule.get("minimum"), value, rule.get("maximum"))
    return True


def is_type(name: str, value: JsonValue) -> bool:
    """Whether a value has a JSON type."""
    actual = type_of(value)
    return actual == name or (actual == "integer" and name == "number")


def type_of(value: JsonValue) -> str:
    """Return a value's JSON type; 3.0 is an integer, as in JSON Schema."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _TYPE_NAMES[type(value)]


@lru_cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern once."""
    return re.compile(pattern)


def _within(low: float | None, value: float, high: float | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)
