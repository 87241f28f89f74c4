"""Parts that the models of manifests and of the policy share."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue

from tenantcron.core import durations, names

CLOSED = ConfigDict(extra="forbid")
# pydantic documents the entries with valid names; this rejects all others.
NO_OTHER_NAMES = {"additionalProperties": False}


def described(description: str, *, default: JsonValue = None, **constraints: Any) -> Any:
    """Describe a key; `default` is documentation, because typed dictionaries have no defaults."""
    extra = dict(constraints.pop("extra", {}))
    if default is not None:
        extra["default"] = default
    return Field(description=description, json_schema_extra=extra, **constraints)


def duration(description: str, default: str | None = None) -> Any:
    """Describe a key that takes a duration."""
    return described(
        description,
        default=default,
        pattern=f"^{durations.PATTERN}$",
        min_length=2,
        extra={"x-expects": durations.EXPECTED},
    )


Name = Annotated[
    str,
    Field(
        pattern=f"^{names.NAME_PATTERN}$",
        json_schema_extra={"x-code": "TC107", "x-expects": names.NAME_EXPECTED},
    ),
]
TenantName = Annotated[
    str,
    Field(
        pattern=f"^{names.TENANT_PATTERN}$",
        json_schema_extra={"x-code": "TC107", "x-expects": names.TENANT_EXPECTED},
    ),
]
