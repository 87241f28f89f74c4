"""The models of a schedule's settings, built from `schedules/settings.py`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, JsonValue, with_config
from typing_extensions import TypedDict

from tenantcron.manifests.language.model_fields import CLOSED, described, duration
from tenantcron.schedules.kinds import (
    Choice,
    Count,
    Duration,
    Flag,
    OwnerId,
    Payload,
    SettingKind,
    Text,
)
from tenantcron.schedules.settings import DEFAULTS, RETRY, SETTINGS, RetryGroup, RetryPolicy

# Built while running, which a type checker cannot follow.
_annotated: Any = Annotated
_literal: Any = Literal
_OWNER = {"x-code": "TC116", "x-hint": "write it as user:maria"}


def _key(kind: SettingKind[Any], default: JsonValue) -> Any:
    """Return the type of a key, with its default in the canonical form."""
    if isinstance(kind, RetryGroup):
        return RetrySpec
    if isinstance(kind, Count):
        return _count(kind, default)
    return _annotated[_type(kind), _field(kind, default)]


def _type(kind: SettingKind[Any]) -> Any:
    if isinstance(kind, Choice):
        return _literal[kind.words]
    return {Flag: bool, Payload: dict[str, JsonValue]}.get(type(kind), str)


def _field(kind: SettingKind[Any], default: JsonValue) -> Any:
    if isinstance(kind, Duration):
        return duration(kind.description, str(default))
    if isinstance(kind, Text):
        return described(kind.description, max_length=kind.longest)
    if kind.pattern is None:
        return described(kind.description, default=default or None)
    extra = _OWNER if isinstance(kind, OwnerId) else {}
    return described(
        kind.description,
        pattern=f"^{kind.pattern}$",
        examples=list(kind.examples),
        extra={"x-expects": kind.expected} | extra,
    )


def _count(kind: Count, default: JsonValue) -> Any:
    low, high = kind.allowed[0], kind.allowed[-1]
    if not kind.or_never:
        return _annotated[int, described(kind.description, default=default, ge=low, le=high)]
    never = _annotated[int, Field(ge=0, le=0)]
    expected = {"x-expects": kind.expected}
    return _annotated[
        never | _annotated[int, Field(ge=low, le=high)],
        described(kind.description, default=default, extra=expected),
    ]


def _keys(kinds: dict[str, SettingKind[Any]], defaults: tuple[object, ...]) -> dict[str, Any]:
    pairs = zip(kinds.items(), defaults, strict=True)
    return {key: _key(kind, kind.write(default)) for (key, kind), default in pairs}


if TYPE_CHECKING:

    class RetrySpec(TypedDict, total=False):
        """What happens after a failed attempt."""

    class SettingsSpec(TypedDict, total=False):
        """How the occurrences of a timetable are treated."""

else:
    RetrySpec = with_config(CLOSED)(
        TypedDict("RetrySpec", _keys(RETRY, RetryPolicy()), total=False)
    )
    RetrySpec.__doc__ = SETTINGS["retry"].description
    SettingsSpec = TypedDict("SettingsSpec", _keys(SETTINGS, DEFAULTS), total=False)
