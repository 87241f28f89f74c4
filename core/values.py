"""Types of JSON values."""

from typing import TypeAlias

JsonScalar: TypeAlias = bool | int | float | str | None
JsonValue: TypeAlias = JsonScalar | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject: TypeAlias = dict[str, JsonValue]


def has_nul(value: JsonValue) -> bool:
    """Whether any text in the value has a NUL, which Postgres cannot store."""
    match value:
        case str():
            return "\0" in value
        case dict():
            return any("\0" in key or has_nul(item) for key, item in value.items())
        case list():
            return any(map(has_nul, value))
    return False
