"""Read targets from documents: of a saga, or the default target of a policy."""

from datetime import timedelta

from tenantcron.core.auth import (
    Auth,
    BearerAuth,
    HmacAuth,
    MtlsAuth,
    OAuth2Auth,
    TokenAuth,
)
from tenantcron.core.durations import parse_duration
from tenantcron.core.requirements import TargetKind
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.targets import HttpTarget, OtherTarget, Target
from tenantcron.manifests.language.schemas import defaults
from tenantcron.manifests.view import View


def read_target(saga: View) -> Target | None:
    """Return a saga's target, None if it has none or a broken one."""
    return read_any_target(saga.get("target"))


def read_any_target(target: View | None) -> Target | None:
    """Return the target in a `target:`, None if there is none or a broken one."""
    match list(target.entries()) if target else []:
        case [(TargetKind.HTTP, _)]:
            return _read_http(target and target.get(TargetKind.HTTP))
        case [(kind, view)] if isinstance(view.value, dict):
            return OtherTarget(kind, view.value)
        case _:
            return None


def _read_http(http: View | None) -> HttpTarget | None:
    url = None if http is None else http.text("url")
    if http is None or url is None:
        return None
    headers = http.get("headers")
    return HttpTarget(
        url=url,
        method=http.text("method") or str(defaults("manifest", "HttpTarget")["method"]),
        headers={key: str(view.value) for key, view in headers.entries()} if headers else {},
        auth=_read_auth(http),
        heartbeat=_read_heartbeat(http),
    )


def _read_heartbeat(http: View) -> timedelta | None:
    if http.text("completion") != "callback":
        return None
    return http.duration("heartbeat") or parse_duration(
        str(defaults("manifest", "HttpTarget")["heartbeat"])
    )


def _read_auth(http: View) -> Auth | None:
    if http.text("auth") == "execution_token":
        return TokenAuth()
    auth = http.get("auth")
    match list(auth.entries()) if auth else []:
        case [("execution_token", options)]:
            return TokenAuth(options.text("audience"))
        case [("mtls", options)]:
            certificate, key = _read_ref(options.get("certificate")), _read_ref(options.get("key"))
            return MtlsAuth(certificate, key) if certificate and key else None
        case [(kind, options)]:
            secret = _read_ref(options.get("secret"))
            return secret and _read_auth_with(secret, kind, options)
        case _:
            return None


def _read_auth_with(secret: SecretRef, kind: str, options: View) -> Auth | None:
    match kind, options.text("token_url"), options.text("client_id"):
        case "hmac", _, _:
            return HmacAuth(secret)
        case "bearer", _, _:
            return BearerAuth(secret)
        case "oauth2_client_credentials", str(token_url), str(client_id):
            return OAuth2Auth(token_url, client_id, secret, options.text("scope"))
        case _:
            return None


def _read_ref(secret: View | None) -> SecretRef | None:
    if secret is None:
        return None
    if (name := secret.text("env")) is not None:
        return SecretRef("env", name)
    path = secret.text("file")
    return None if path is None else SecretRef("file", path)
