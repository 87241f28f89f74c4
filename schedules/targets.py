"""The stored form of a schedule's target."""

from datetime import timedelta
from typing import Final

from tenantcron.core.auth import (
    Auth,
    BearerAuth,
    HmacAuth,
    MtlsAuth,
    OAuth2Auth,
    TokenAuth,
    kind_of,
    secrets_of,
)
from tenantcron.core.durations import DurationError, format_duration, parse_duration
from tenantcron.core.requirements import TargetKind
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.targets import HttpTarget, OtherTarget, Target
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.schedules.kinds import Duration
from tenantcron.schedules.settings import unreadable

HEARTBEAT: Final = Duration(
    "The longest time between two heartbeats.", timedelta(seconds=5), timedelta(hours=1)
)
QUEUE_WAIT: Final = Duration(
    "The longest time in a queue, before the first heartbeat.",
    timedelta(seconds=5),
    timedelta(days=1),
)


def write_target(target: Target | None) -> JsonObject:
    """Return the target as a definition stores it."""
    if target is None:
        return {"target": None}
    if isinstance(target, OtherTarget):
        return {"target": {target.kind: target.options}}
    headers: JsonObject = dict(target.headers)
    http: JsonObject = {
        "url": target.url,
        "method": target.method,
        "headers": headers,
        "auth": _write_auth(target.auth),
    }
    if target.heartbeat is not None:
        # Not stored otherwise, so that the hashes of other definitions stay the same.
        http["callback"] = {"heartbeat": format_duration(target.heartbeat)}
    return {"target": {"http": http}}


def read_target(definition: JsonObject) -> Target | None:
    """Read the target of a stored definition; None means that a Python handler runs the saga."""
    match definition.get("target"):
        case None:
            return None
        case {
            "http": {
                "url": str(url),
                "method": str(method),
                "headers": dict(headers),
                "auth": auth,
                **others,
            }
        }:
            texts = {name: str(text) for name, text in headers.items()}
            heartbeat = _read_heartbeat(others.get("callback"))
            return HttpTarget(url, method, texts, _read_auth(auth), heartbeat)
        case dict(target) if len(target) == 1 and TargetKind.HTTP not in target:
            ((kind, options),) = target.items()
            if isinstance(options, dict):
                return OtherTarget(kind, options)
            raise unreadable("target", target, "the options of the target, as a mapping")
        case other:
            raise unreadable("target", other, "an HTTP target with url, method, headers and auth")


def _read_heartbeat(callback: object) -> timedelta | None:
    match callback:
        case None:
            return None
        case {"heartbeat": str(text)}:
            try:
                return parse_duration(text)
            except DurationError:
                pass
    raise unreadable("callback", repr(callback), "a heartbeat with a duration")


def _write_auth(auth: Auth | None) -> JsonValue:
    if auth is None:
        return "none"
    options: JsonObject = {name: {ref.kind: ref.name} for name, ref in secrets_of(auth).items()}
    match auth:
        case TokenAuth(audience):
            options["audience"] = audience
        case OAuth2Auth(token_url, client_id, _, scope):
            options |= {"token_url": token_url, "client_id": client_id, "scope": scope}
    return {kind_of(auth): options}


def _read_auth(auth: JsonValue) -> Auth | None:
    match auth:
        case "none":
            return None
        case {"execution_token": {"audience": str() | None as audience}}:
            return TokenAuth(audience)
        case {"hmac": {"secret": secret}}:
            return HmacAuth(_read_ref(secret))
        case {"bearer": {"secret": secret}}:
            return BearerAuth(_read_ref(secret))
        case {
            "oauth2_client_credentials": {
                "token_url": str(token_url),
                "client_id": str(client_id),
                "secret": secret,
                "scope": str() | None as scope,
            }
        }:
            return OAuth2Auth(token_url, client_id, _read_ref(secret), scope)
        case {"mtls": {"certificate": {"file": str(certificate)}, "key": {"file": str(key)}}}:
            return MtlsAuth(SecretRef("file", certificate), SecretRef("file", key))
        case other:
            raise unreadable("auth", other, "none, or a kind of authentication with its options")


def _read_ref(ref: JsonValue) -> SecretRef:
    match ref:
        case {"env": str(name)}:
            return SecretRef("env", name)
        case {"file": str(name)}:
            return SecretRef("file", name)
        case other:
            raise unreadable("auth", other, "the reference to a secret: env or file")
