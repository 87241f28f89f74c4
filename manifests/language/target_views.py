"""Read HTTP targets from documents: of a saga, or the default target of a policy."""

from tenantcron.core.auth import Auth, HmacAuth, TokenAuth
from tenantcron.core.secret_refs import SecretRef
from tenantcron.manifests.language.schemas import defaults
from tenantcron.manifests.view import View
from tenantcron.schedules.targets import HttpTarget


def read_target(saga: View) -> HttpTarget | None:
    """Return a saga's HTTP target, None if it has none or a broken one."""
    return read_http_target(saga.get("target"))


def read_http_target(target: View | None) -> HttpTarget | None:
    """Return the HTTP target of a `target:`, None if it has none or a broken one."""
    http = target and target.get("http")
    url = None if http is None else http.text("url")
    if http is None or url is None:
        return None
    headers = http.get("headers")
    return HttpTarget(
        url=url,
        method=http.text("method") or str(defaults("manifest", "HttpTarget")["method"]),
        headers={key: str(view.value) for key, view in headers.entries()} if headers else {},
        auth=_read_auth(http),
    )


def _read_auth(http: View) -> Auth | None:
    if http.text("auth") == "execution_token":
        return TokenAuth()
    auth = http.get("auth")
    if auth is None:
        return None
    if (token := auth.get("execution_token")) is not None:
        return TokenAuth(token.text("audience"))
    hmac = auth.get("hmac")
    secret = hmac and hmac.get("secret")
    if secret is None:
        return None
    if (name := secret.text("env")) is not None:
        return HmacAuth(SecretRef("env", name))
    path = secret.text("file")
    return None if path is None else HmacAuth(SecretRef("file", path))
