"""Callers: authentication and rate limits of requests.

1. `Authorization: Bearer tc_…` is an API token. One statement finds it and counts the request.
   Reads with a busy token share a statement for up to a second (see `rate_limits`). Each write
   runs its own statement, so a revoked token cannot write anything.
2. Any other bearer token is a token of the OIDC issuer, if the settings have one.
3. A request without a token is rejected unless the server was started with `--anonymous`, which
   requires a loopback address. Such a caller is not authenticated. Any web page can make a browser
   on the same machine send requests, so cross-origin requests and other host names are rejected.

The response to an invalid token is always the same; the log has the reason. A valid OIDC token
without a claim that grants access gets 403 with the name of the claim.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog
from starlette.requests import Request

from tenantcron.actor import api_tokens, oidc
from tenantcron.actor.grants import (
    AuthenticatedCaller,
    Grant,
    InvalidCredentialsError,
    MissingClaimError,
    Role,
)
from tenantcron.actor.model import Actor, ActorType, AnyActor
from tenantcron.core.egress import bare
from tenantcron.core.hosts import host_of
from tenantcron.service.oidc_key_sets import IssuerKeySet
from tenantcron.service.problems import ApiProblem, unauthenticated
from tenantcron.service.rate_limits import Allowances, enforce_rate_limit
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import api_usage

log = structlog.get_logger()

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_ANONYMOUS: Final = Actor("anonymous", ActorType.HUMAN, api_tokens.API_SOURCE)
_NOT_VALID: Final = "the token is not valid: it may be misspelt, revoked or expired"
_READING: Final = ("GET", "HEAD")
_MISSING: Final = "send `Authorization: Bearer` with a token"


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request and its permissions."""

    actor: AnyActor
    grant: Grant
    # Identifies the caller in request counts and idempotency keys.
    key: str


@dataclass(frozen=True, slots=True)
class OidcIssuer:
    """An OIDC issuer and its keys."""

    issuer: oidc.Issuer
    keys: IssuerKeySet


@dataclass(frozen=True, slots=True)
class Callers:
    """Authenticates callers."""

    database: Database
    rate_limit: int
    allowances: Allowances
    issuer: OidcIssuer | None = None
    anonymous: bool = False

    async def of(self, request: Request) -> Caller:
        """Return the caller; raise ApiProblem if it is not authenticated or exceeds its limit."""
        bearer = bearer_of(request)
        if bearer is None:
            return self.without_token(request)
        return await self.with_bearer(bearer, reads=request.method in _READING)

    async def with_bearer(self, bearer: str, *, reads: bool = False) -> Caller:
        """Return the caller of a token; raise ApiProblem if it is invalid or over the limit.

        A read may use an authentication result that is up to a second old.
        """
        try:
            if (presented := api_tokens.read_token(bearer)) is not None:
                return await self._with_token(presented, reads=reads)
            return await self._with_oidc(bearer)
        except InvalidCredentialsError as error:
            log.info("token_refused", error=str(error))
            raise unauthenticated(_NOT_VALID) from error
        except MissingClaimError as error:
            log.info("token_refused", error=str(error))
            raise ApiProblem("TC702", str(error)) from error

    def without_token(self, request: Request) -> Caller:
        """Return the anonymous caller, if the server allows one."""
        if not self.anonymous:
            raise unauthenticated(_MISSING)
        if not is_loopback(request) or is_cross_origin(request):
            raise unauthenticated("requests without a token are allowed from this machine only")
        return Caller(_ANONYMOUS, Grant(Role.ADMIN, None), "anonymous")

    async def _with_token(self, presented: api_tokens.PresentedToken, *, reads: bool) -> Caller:
        asked = self.allowances.read if reads else self.allowances.change
        found = await asked(presented)
        token = None if found is None else found.token
        now = datetime.now(UTC) if found is None else found.now
        caller = _caller(api_tokens.authenticate(presented, token, now), f"token:{presented.id}")
        enforce_rate_limit(None if found is None else found.usage, self.rate_limit)
        return caller

    async def _with_oidc(self, bearer: str) -> Caller:
        if self.issuer is None:
            raise InvalidCredentialsError("not an API token, and no OIDC issuer is set")
        key = await self.issuer.keys.key(oidc.key_id(bearer))
        authenticated = oidc.authenticate(bearer, key, self.issuer.issuer, datetime.now(UTC))
        caller = _caller(authenticated, authenticated.actor.id)
        async with self.database.transaction() as connection:
            enforce_rate_limit(await api_usage.count(connection, caller.key), self.rate_limit)
        return caller


def is_loopback(request: Request) -> bool:
    """Whether the `Host` of a request is a loopback name."""
    host = host_of(request.headers.get("host", ""))
    return host is not None and bare(host) in LOOPBACK


def is_cross_origin(request: Request) -> bool:
    """Whether the `Origin` of a request is another site."""
    origin, host = request.headers.get("origin"), request.headers.get("host")
    return origin is not None and origin not in (f"http://{host}", f"https://{host}")


def _caller(authenticated: AuthenticatedCaller, key: str) -> Caller:
    return Caller(authenticated.actor, authenticated.grant, key)


def bearer_of(request: Request) -> str | None:
    """Return the bearer token of a request; None if there is none."""
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise ApiProblem("TC720", "send one `Authorization` header")
    scheme, _, bearer = "".join(given).partition(" ")
    if not scheme:
        return None
    if scheme.lower() != "bearer" or not bearer.strip():
        raise unauthenticated(_MISSING)
    return bearer.strip()
