"""Execution tokens: introspection (RFC 7662) and renewal.

A receiver authenticates with the token itself, or with an API or OIDC token, which may introspect
tokens of its own tenants. The response is the same for all inactive tokens. A token that does not
verify authenticates no caller, so it cannot introspect itself.
"""

import hmac
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

import structlog
from fastapi import APIRouter, Request, Response

from tenantcron.actor.verification import InvalidTokenError, Proof
from tenantcron.api.replies import json_reply
from tenantcron.api.routing import CORRELATION, StrictRoute, problems
from tenantcron.core.names import TenantId
from tenantcron.scheduler.tokens.live_tokens import LiveTokens
from tenantcron.service.callers import bearer_of
from tenantcron.service.problems import ApiProblem, invalid, unauthenticated
from tenantcron.service.rate_limits import enforce_rate_limit
from tenantcron.service.responses.execution_tokens import RenewedToken, TokenIntrospection
from tenantcron.service.roles import Permission
from tenantcron.service.work import Service

router = APIRouter(tags=["tokens"], route_class=StrictRoute)
log = structlog.get_logger()

_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_INACTIVE: Final = {"active": False}
_MISSING: Final = "send the execution token as `Authorization: Bearer`"
_ENDED: Final = "the token is not active: its attempt has ended, or it has expired"
_SCHEMA: Final = {
    "type": "object",
    "required": ["token"],
    "properties": {"token": {"type": "string"}, "token_type_hint": {"type": "string"}},
}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": _SCHEMA} for kind in (_FORM, _JSON)},
    }
}


@router.post(
    "/tokens:introspect",
    response_model=TokenIntrospection,
    responses=problems(404, 415),
    openapi_extra=_BODY,
)
async def introspect_token(request: Request) -> Response:
    """Return whether an execution token is active, and its claims."""
    service: Service = request.app.state.service
    bearer = bearer_of(request)
    if bearer is None:
        # Authenticate first: an unknown caller must learn nothing about the server.
        service.callers.without_token(request)
    tokens, token = _live(service), await _token(request)
    is_own = _same(bearer, token)
    tenant = None if is_own else await _sees(request, service, bearer)
    try:
        proof = await tokens.verified(token)
    except InvalidTokenError as error:
        if is_own:
            # RFC 7662, section 2.1: the caller must be authorised. This token authenticates none.
            raise _refused(error) from error
        return json_reply(_INACTIVE)
    checked = await tokens.check(proof, _counted_as(proof) if is_own else None)
    enforce_rate_limit(checked.usage, service.callers.rate_limit)
    if checked.lease is None or tenant not in (None, proof.tenant):
        return json_reply(_INACTIVE)
    return json_reply(_claims(proof, service.settings.issuer))


@router.post("/tokens:renew", response_model=RenewedToken, responses=problems(404))
async def renew_token(request: Request) -> Response:
    """Return a new token for the one in the request."""
    service: Service = request.app.state.service
    token = bearer_of(request)
    if token is None:
        raise unauthenticated(_MISSING)
    tokens = _live(service)
    try:
        proof = await tokens.verified(token)
    except InvalidTokenError as error:
        raise _refused(error) from error
    checked = await tokens.check(proof, _counted_as(proof))
    enforce_rate_limit(checked.usage, service.callers.rate_limit)
    renewed = None if checked.lease is None else await tokens.renew(proof, checked.lease)
    if renewed is None:
        raise unauthenticated(_ENDED)
    fresh: RenewedToken = {
        "access_token": renewed.token,
        "token_type": "Bearer",
        "expires_in": renewed.expires_in,
    }
    return json_reply(fresh)


def _refused(error: InvalidTokenError) -> ApiProblem:
    log.info("token_refused", error=str(error))
    return unauthenticated(_MISSING)


def _live(service: Service) -> LiveTokens:
    if service.live_tokens is None:
        raise ApiProblem("TC703", "the server has no signing keys: set its master key")
    return service.live_tokens


async def _sees(request: Request, service: Service, bearer: str | None) -> TenantId | None:
    """Return the tenant whose tokens the caller may introspect; None for all."""
    callers = service.callers
    caller = (
        callers.without_token(request)
        if bearer is None
        else await callers.with_bearer(bearer, reads=True)
    )
    work = service.work(caller, request.scope[CORRELATION])
    work.require(Permission.READ)
    return work.bound_to


async def _token(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (_FORM, _JSON):
        raise ApiProblem("TC713", f"send the token as {_FORM} or {_JSON}")
    body = await request.body()
    fields = _form(body) if kind == _FORM else _document(body)
    token = fields.get("token")
    if not isinstance(token, str) or not token:
        raise invalid("the body must have exactly one `token`, a string")
    return token


def _form(body: bytes) -> Mapping[str, object]:
    try:
        fields = parse_qs(body.decode("ascii", "replace"), max_num_fields=10)
    except ValueError:  # more than max_num_fields
        return {}
    return {name: values[0] for name, values in fields.items() if len(values) == 1}


def _document(body: bytes) -> Mapping[str, object]:
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _same(bearer: str | None, token: str) -> bool:
    # JSON can carry lone surrogates, which are no UTF-8.
    return bearer is not None and hmac.compare_digest(
        bearer.encode(), token.encode(errors="surrogatepass")
    )


def _counted_as(proof: Proof) -> str:
    return f"execution:{proof.execution}"


def _claims(proof: Proof, issuer: str) -> TokenIntrospection:
    issued_at = int(proof.issued_at.timestamp())
    claims: TokenIntrospection = {
        "active": True,
        "token_type": "Bearer",
        "iss": issuer,
        "sub": proof.actor.id,
        "aud": proof.audience,
        "jti": proof.token_id,
        "iat": issued_at,
        "nbf": issued_at,
        "exp": int(proof.expires_at.timestamp()),
        "tenant": proof.tenant,
        "roles": list(proof.roles),
        "execution": str(proof.execution),
    }
    if proof.attempt is not None:
        claims["attempt"] = proof.attempt
    if proof.deadline is not None:
        claims["deadline"] = int(proof.deadline.timestamp())
    if proof.owner is not None:
        claims["owner"] = proof.owner
    return claims
