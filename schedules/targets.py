"""The target of a schedule: the endpoint that executes its saga, and its stored form."""

from typing import NamedTuple

from tenantcron.core.auth import Auth, HmacAuth, TokenAuth
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.schedules.settings import unreadable


class HttpTarget(NamedTuple):
    """An HTTP endpoint that runs the saga."""

    url: str
    method: str
    headers: dict[str, str]
    auth: Auth | None = None


def write_target(target: HttpTarget | None) -> JsonObject:
    """Return the target as a definition stores it."""
    if target is None:
        return {"target": None}
    headers: JsonObject = dict(target.headers)
    http: JsonObject = {
        "url": target.url,
        "method": target.method,
        "headers": headers,
        "auth": _write_auth(target.auth),
    }
    return {"target": {"http": http}}


def read_target(definition: JsonObject) -> HttpTarget | None:
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
            }
        }:
            texts = {name: str(text) for name, text in headers.items()}
            return HttpTarget(url, method, texts, _read_auth(auth))
        case other:
            raise unreadable("target", other, "an HTTP target with url, method, headers and auth")


def _write_auth(auth: Auth | None) -> JsonValue:
    match auth:
        case None:
            return "none"
        case TokenAuth(audience):
            return {"execution_token": {"audience": audience}}
        case HmacAuth(secret):
            return {"hmac": {"secret": {secret.kind: secret.name}}}


def _read_auth(auth: JsonValue) -> Auth | None:
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
            raise unreadable("auth", other, "none, an execution token or an hmac")
