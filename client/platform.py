"""Calls about the platform: limits, tokens, keys, webhooks, the audit and the tenant source."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from tenantcron.client.calls import ApiCall, body_of, path_of, query_of
from tenantcron.core.values import JsonObject
from tenantcron.service.responses.platform_shapes import (
    AuditResponse,
    DetachedResponse,
    LimitsResponse,
    NewTokenResponse,
    RefreshResponse,
    RewrappedResponse,
    SigningKeyList,
    SigningKeyResponse,
    TokenList,
    TokenResponse,
    WebhookList,
    WebhookResponse,
    WebhookTestResponse,
)


def limits() -> ApiCall[LimitsResponse]:
    """Get the concurrency limits of the cluster."""
    return ApiCall("GET", path_of("limits"), LimitsResponse)


def set_limits(
    values: Mapping[str, int | None], reason: str | None = None
) -> ApiCall[LimitsResponse]:
    """Set limits by name; None restores the declared limit."""
    body: JsonObject = {**values, **body_of(reason=reason)}
    return ApiCall("PATCH", path_of("limits"), LimitsResponse, body=body)


def tokens() -> ApiCall[TokenList]:
    """List API tokens without their secrets."""
    return ApiCall("GET", path_of("tokens"), TokenList)


def create_token(
    name: str, role: str, *, tenant: str | None = None, expires_in: str | None = None
) -> ApiCall[NewTokenResponse]:
    """Create an API token, with at most the rights of the caller."""
    body = body_of(name=name, role=role, tenant=tenant, expires_in=expires_in)
    return ApiCall("POST", path_of("tokens"), NewTokenResponse, body=body)


def revoke_token(token: str) -> ApiCall[TokenResponse]:
    """Revoke an API token permanently."""
    return ApiCall("POST", path_of("tokens", f"{token}:revoke"), TokenResponse)


def keys() -> ApiCall[SigningKeyList]:
    """List the keys that sign execution tokens."""
    return ApiCall("GET", path_of("keys"), SigningKeyList)


def rotate_keys(
    algorithm: str, *, lead: str | None = None, now: bool = False
) -> ApiCall[SigningKeyResponse]:
    """Create a key and publish it before it signs."""
    body = body_of(algorithm=algorithm, lead=lead, now=now or None)
    return ApiCall("POST", path_of("keys:rotate"), SigningKeyResponse, body=body)


def retire_key(kid: str) -> ApiCall[SigningKeyResponse]:
    """Revoke a key early, which invalidates its tokens."""
    return ApiCall("POST", path_of("keys", f"{kid}:retire"), SigningKeyResponse)


def rewrap_keys() -> ApiCall[RewrappedResponse]:
    """Encrypt all private keys with the first master key of the server."""
    return ApiCall("POST", path_of("keys:rewrap"), RewrappedResponse)


def key_set() -> ApiCall[dict[str, object]]:
    """Get the public keys as a JSON Web Key Set; needs no token."""
    return ApiCall("GET", "/.well-known/jwks.json", dict[str, object])


def webhooks() -> ApiCall[WebhookList]:
    """List webhooks and their undelivered events."""
    return ApiCall("GET", path_of("webhooks"), WebhookList)


def add_webhook(
    name: str,
    url: str,
    *,
    events: Sequence[str] = (),
    tenants: Sequence[str] = (),
    secret: str | None = None,
    batch: bool = False,
) -> ApiCall[WebhookResponse]:
    """Send events to a URL from now on; `secret` is a reference such as env:NAME."""
    body: JsonObject = body_of(name=name, url=url, secret=secret, batch=batch)
    body |= {key: [*value] for key, value in (("events", events), ("tenants", tenants)) if value}
    return ApiCall("POST", path_of("webhooks"), WebhookResponse, body=body)


def test_webhook(name: str) -> ApiCall[WebhookTestResponse]:
    """Send a test event from the server."""
    return ApiCall("POST", path_of("webhooks", f"{name}:test"), WebhookTestResponse)


def enable_webhook(name: str) -> ApiCall[WebhookResponse]:
    """Enable a disabled webhook."""
    return ApiCall("POST", path_of("webhooks", f"{name}:enable"), WebhookResponse)


def disable_webhook(name: str, reason: str | None = None) -> ApiCall[WebhookResponse]:
    """Disable a webhook without removing it."""
    path = path_of("webhooks", f"{name}:disable")
    return ApiCall("POST", path, WebhookResponse, body=body_of(reason=reason))


def remove_webhook(name: str) -> ApiCall[WebhookResponse]:
    """Remove a webhook and its undelivered events."""
    return ApiCall("POST", path_of("webhooks", f"{name}:remove"), WebhookResponse)


def audit(*, tenant: str | None = None, since: datetime | None = None) -> ApiCall[AuditResponse]:
    """Compare expected occurrences with recorded executions."""
    return ApiCall("GET", path_of("audit"), AuditResponse, query_of(tenant=tenant, since=since))


def refresh_tenants(
    *, check: bool = False, max_missing: int | None = None
) -> ApiCall[RefreshResponse]:
    """Sync the tenants with the tenant source of the server."""
    body = body_of(check=check, max_missing=max_missing)
    return ApiCall("POST", path_of("tenants:refresh"), RefreshResponse, body=body)


def detach_tenant_source() -> ApiCall[DetachedResponse]:
    """Remove the tenant source; its tenants stay as they are."""
    return ApiCall("POST", path_of("tenants:refresh"), DetachedResponse, body={"detach": True})
