"""Read what a schedule says beside its timetable: the other side of how definitions are written.

A definition is checked before it is stored, but it lies in a database, and hands reach everything
there. What cannot be read is told by its key, and touches the executions of that schedule only.
"""

from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from tenantcron.core.auth import Auth, HmacAuth, TokenAuth
from tenantcron.core.durations import DurationError, parse_duration
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import Owner, is_owner
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import shortened
from tenantcron.manifests.desired import CatchUp, HttpTarget, Overlap, Priority, Retry, Settings

E = TypeVar("E", bound=StrEnum)


class PoliciesError(TenantcronError):
    """The definition of a schedule cannot be read."""


def read_policies(definition: JsonObject) -> Settings:
    """Read the settings of a definition; callers keep them by the definition's id.

    `enabled` is a column of its own. Whoever asks is about to run an occurrence, so it was.
    """
    return Settings(
        description=_text(definition, "description"),
        enabled=True,
        spread=_duration(definition, "spread"),
        overlap=_choice(definition, "overlap", Overlap),
        catch_up=_choice(definition, "catch_up", CatchUp),
        catch_up_window=_duration(definition, "catch_up_window"),
        start_within=_duration(definition, "start_within"),
        timeout=_duration(definition, "timeout", least=timedelta(seconds=1)),
        retry=_retry(_object(definition, "retry")),
        auto_pause_after=_count(definition, "auto_pause_after", least=0),
        priority=_choice(definition, "priority", Priority),
        payload=_object(definition, "payload"),
        owner=_owner(definition),
    )


def read_target(definition: JsonObject) -> HttpTarget | None:
    """Read the target; None means that a Python handler runs the saga."""
    match definition.get("target"):
        case None:
            return None
        case {
            "http": {
                "url": str(url),
                "method": str(method),
                "headers": dict(headers),
                "auth": auth,
            }
        }:
            texts = {name: str(text) for name, text in headers.items()}
            return HttpTarget(url, method, texts, _auth(auth))
        case other:
            raise _unreadable("target", other, "an HTTP target with url, method, headers and auth")


def _auth(auth: JsonValue) -> Auth | None:
    match auth:
        case "none":
            return None
        case {"execution_token": {"audience": str() | None as audience}}:
            return TokenAuth(audience)
        case {"hmac": {"secret": {"env": str(name)}}}:
            return HmacAuth(SecretRef("env", name))
        case {"hmac": {"secret": {"file": str(name)}}}:
            return HmacAuth(SecretRef("file", name))
        case other:
            raise _unreadable("auth", other, "none, an execution token or an hmac")


def _retry(retry: JsonObject) -> Retry:
    return Retry(
        max_attempts=_count(retry, "max_attempts", least=1),
        backoff=_duration(retry, "backoff"),
        max_backoff=_duration(retry, "max_backoff"),
    )


def _owner(definition: JsonObject) -> Owner | None:
    """What is not an owner must not run as if there were none: the check would be left out."""
    match definition.get("owner", ""):
        case None:
            return None
        case str(owner) if is_owner(owner):
            return Owner(owner)
        case other:
            raise _unreadable("owner", other, "an owner such as user:maria")


def _text(of: JsonObject, key: str) -> str:
    value = of.get(key)
    if isinstance(value, str):
        return value
    raise _unreadable(key, value, "text")


def _object(of: JsonObject, key: str) -> JsonObject:
    value = of.get(key)
    if isinstance(value, dict):
        return value
    raise _unreadable(key, value, "an object")


def _count(of: JsonObject, key: str, *, least: int) -> int:
    value = of.get(key)
    # To Python, true is a number.
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise _unreadable(key, value, f"a whole number of at least {least}")


def _duration(of: JsonObject, key: str, *, least: timedelta = timedelta(0)) -> timedelta:
    text = _text(of, key)
    try:
        duration = parse_duration(text)
    except DurationError as error:
        raise _unreadable(key, text, "a duration") from error
    if duration < least:
        raise _unreadable(key, text, "a longer duration")
    return duration


def _choice(of: JsonObject, key: str, kind: type[E]) -> E:
    value = of.get(key)
    for member in kind:
        if member.value == value:
            return member
    raise _unreadable(key, value, f"one of {', '.join(kind)}")


def _unreadable(key: str, value: JsonValue, expected: str) -> PoliciesError:
    return PoliciesError(
        f"the definition of the schedule has {key} {shortened(repr(value))}, not {expected}: "
        "apply its manifest again"
    )
