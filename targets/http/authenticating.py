"""Authenticate a request to an HTTP target, by each kind of `auth`.

Everything is checked again for each request, because a stored definition can be edited: the secrets
with the policy's `allowed_secrets`, audiences with `allowed_audiences`, and the token endpoint with
the egress rules.
"""

import re
from typing import Final

from tenantcron.actor.signatures import SignedRequest
from tenantcron.core.auth import (
    BearerAuth,
    HmacAuth,
    MtlsAuth,
    OAuth2Auth,
    TokenAuth,
)
from tenantcron.core.egress import Url
from tenantcron.core.names import TenantId
from tenantcron.core.secret_refs import SecretRef
from tenantcron.targets.http.credentials import (
    CertificateFiles,
    RequestCredentials,
    bearer,
    signed,
    timestamp,
)
from tenantcron.targets.http.oauth2 import OAuth2Client, OAuth2Tokens
from tenantcron.targets.http.requests import TargetRequest
from tenantcron.targets.http.secrets import check_allowed, read_secret
from tenantcron.targets.minting import mint_token
from tenantcron.targets.responses import FailCall, RetryCall

_HEADER_TEXT: Final = re.compile(rb"[\x21-\x7e]+")


async def authenticate(
    request: TargetRequest, tenant: TenantId, url: Url, body: bytes, oauth2: OAuth2Tokens
) -> RequestCredentials:
    """Return the credentials of a request; raise a RetryCall or a FailCall if it has none."""
    match request.auth:
        case None:
            return RequestCredentials()
        case TokenAuth(audience):
            token = await mint_token(
                request.tokens, audience or url.origin, url.origin, request.allowed_audiences
            )
            return bearer(token)
        case HmacAuth(ref):
            return await _signature(request, ref, url, body)
        case BearerAuth(ref):
            return bearer(await _bearer_secret(request, ref))
        case OAuth2Auth() as auth:
            secret = await read_secret(auth.secret, request.allowed_secrets)
            return await oauth2.credentials(OAuth2Client(tenant, auth, secret, request.egress))
        case MtlsAuth() as auth:
            return _certificate(request, auth, url)


async def _signature(
    request: TargetRequest, ref: SecretRef, url: Url, body: bytes
) -> RequestCredentials:
    secret = await read_secret(ref, request.allowed_secrets)
    return signed(
        secret,
        SignedRequest(
            method=request.method,
            url=str(url),
            timestamp=timestamp(request.started_at),
            key=request.key,
            body=body,
        ),
    )


async def _bearer_secret(request: TargetRequest, ref: SecretRef) -> str:
    secret = await read_secret(ref, request.allowed_secrets)
    if _HEADER_TEXT.fullmatch(secret) is None:
        raise RetryCall(f"the secret {ref} is not printable ASCII without spaces, as a token is")
    return secret.decode()


def _certificate(request: TargetRequest, auth: MtlsAuth, url: Url) -> RequestCredentials:
    if url.scheme != "https":
        raise FailCall(f"{url.origin} cannot ask for a client certificate: use an https URL")
    for ref in (auth.certificate, auth.key):
        check_allowed(ref, request.allowed_secrets)
    return RequestCredentials(certificate=CertificateFiles(auth.certificate.name, auth.key.name))
