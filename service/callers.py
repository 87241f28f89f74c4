"""Callers: who sends a request, how they prove it, and how often they may.

1. `Authorization: Bearer tc_…` is an API token. One statement finds it and counts the request.
   Reads of a busy token share such a statement for a second at most (see `allowances`). Whatever
   changes something asks each time: a token that was revoked a moment ago changes nothing.
2. Any other bearer is a token of the OIDC issuer, if the settings name one.
3. Nothing: nobody, unless the server was started with `--anonymous`, which it only does on a
   loopback address. Such a caller acts unauthenticated. A browser on the same machine can be made
   to send requests by any page that it shows, so requests that come from a page, or under another
   host name, are refused.

The reply about a token that is not valid is always the same: the reason is in the log. A valid OIDC
token without a claim that grants access is 403, and names the claim.
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
from tenantcron.service.rate_limits import Allowances
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import api_usage
from tenantcron.store.rows.api_usage import Usage

log = structlog.get_logger()

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_ANONYMOUS: Final = Actor("anonymous", ActorType.HUMAN, api_tokens.API_SOURCE)
_NOT_VALID: Final = "the token is not valid: it may be misspelt, revoked or expired"
_READING: Final = ("GET", "HEAD")
_MISSING: Final = "send `Authorization: Bearer` with a token"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and what they may do."""

    actor: AnyActor
    grant: Grant
    # By which requests are counted, and idempotency keys kept apart.
    key: str


@dataclass(frozen=True, slots=True)
class OidcIssuer:
    """An issuer and its keys."""

    issuer: oidc.Issuer
    keys: IssuerKeySet


@dataclass(frozen=True, slots=True)
class Callers:
    """Finds out who sends a request."""

    database: Database
    rate_limit: int
    allowances: Allowances
    issuer: OidcIssuer | None = None
    anonymous: bool = False

    async def of(self, request: Request) -> Caller:
        """Return who sends the request; a Problem if nobody does, or too often."""
        bearer = bearer_of(request)
        if bearer is None:
            return self.nobody(request)
        return await self.presenting(bearer, reads=request.method in _READING)

    async def presenting(self, bearer: str, *, reads: bool = False) -> Caller:
        """Return who presents a token; a Problem if it proves nobody, or comes too often.

        For what only reads, a proof counts that is a second old.
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

    def nobody(self, request: Request) -> Caller:
        """Return the caller who presents nothing, if such callers are served."""
        if not self.anonymous:
            raise unauthenticated(_MISSING)
        if not is_loopback(request) or is_from_elsewhere(request):
            raise unauthenticated("without a token only this machine itself is served")
        return Caller(_ANONYMOUS, Grant(Role.ADMIN, None), "anonymous")

    async def _with_token(self, presented: api_tokens.PresentedToken, *, reads: bool) -> Caller:
        asked = self.allowances.read if reads else self.allowances.change
        found = await asked(presented)
        token = None if found is None else found.token
        now = datetime.now(UTC) if found is None else found.now
        caller = _caller(api_tokens.authenticate(presented, token, now), f"token:{presented.id}")
        self.refuse_too_many(None if found is None else found.usage)
        return caller

    async def _with_oidc(self, bearer: str) -> Caller:
        if self.issuer is None:
            raise InvalidCredentialsError("not an API token, and no OIDC issuer is set")
        key = await self.issuer.keys.key(oidc.key_id(bearer))
        authenticated = oidc.authenticate(bearer, key, self.issuer.issuer, datetime.now(UTC))
        caller = _caller(authenticated, authenticated.actor.id)
        async with self.database.transaction() as connection:
            self.refuse_too_many(await api_usage.count(connection, caller.key))
        return caller

    def refuse_too_many(self, usage: Usage | None) -> None:
        """Refuse a request beyond the limit of its caller."""
        if usage is None or usage.requests <= self.rate_limit:
            return
        wait = max(1, usage.seconds_left)
        detail = f"{self.rate_limit} requests a minute are allowed: try again in {wait} s"
        raise ApiProblem("TC709", detail, headers={"Retry-After": str(wait)})


def is_loopback(request: Request) -> bool:
    """Whether a request came under a name of this machine itself."""
    host = host_of(request.headers.get("host", ""))
    return host is not None and bare(host) in LOOPBACK


def is_from_elsewhere(request: Request) -> bool:
    """Whether a browser says that a page of another address, or port, sends a request."""
    origin, host = request.headers.get("origin"), request.headers.get("host")
    return origin is not None and origin not in (f"http://{host}", f"https://{host}")


def _caller(authenticated: AuthenticatedCaller, key: str) -> Caller:
    return Caller(authenticated.actor, authenticated.grant, key)


def bearer_of(request: Request) -> str | None:
    """Return the bearer token of a request, None if it has none."""
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise ApiProblem("TC720", "send one `Authorization` header")
    scheme, _, bearer = "".join(given).partition(" ")
    if not scheme:
        return None
    if scheme.lower() != "bearer" or not bearer.strip():
        raise unauthenticated(_MISSING)
    return bearer.strip()
