"""Execution tokens: minted on request of a handler, while its lease is valid.

Tokens are neither prepared nor cached. For each token one short statement reads whether the
execution still holds this lease, whether its tenant is active, which key signs, and the time. So
each request returns a new token. If the lease was lost or the tenant was suspended meanwhile, the
request fails with the reason.

A token that cannot be minted is an error of the attempt. It is logged and counted.

Minting uses the scheduler's own connections, never those of handlers: handlers may request tokens
during a transaction, and with all connections in use they would deadlock. Minting uses one
connection at a time, so that heartbeats always find one: requests that arrive during a query are
combined into the next query. Plain handlers call from their thread and wait for the event loop.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import scheduler_actor
from tenantcron.core.auth import LONGEST_AUDIENCE
from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.combining import Combiner
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import Owner
from tenantcron.core.settings import Settings
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.store.steps import minting
from tenantcron.store.steps.claiming import Claimed
from tenantcron.store.steps.minting import Permit
from tenantcron.targets.tokens import TokenError

if TYPE_CHECKING:
    from tenantcron.scheduler.tokens.signing_keys import Signer

# The maximum number of executions per query.
_AT_A_TIME: Final = 100
# How long a plain handler waits for the event loop.
_PATIENCE: Final = timedelta(seconds=30)

log = structlog.get_logger(__name__)


class MintFailure(StrEnum):
    """Why a token was refused."""

    AUDIENCE = "audience"
    LEASE = "lease"
    TENANT = "tenant"
    IDENTITY = "identity"
    KEY = "key"
    DATABASE = "database"


class _RefusedError(Exception):
    """A refusal with its reason, and a message for people."""

    def __init__(self, failure: MintFailure, text: str) -> None:
        super().__init__(text)
        self.failure = failure


@dataclass(slots=True)
class MintCounts:
    """The number of tokens that this process has minted, and of refusals by reason."""

    minted: int = 0
    failed: Counter[MintFailure] = field(default_factory=Counter)


class TokenRequest(NamedTuple):
    """A handler's request for a token."""

    claimed: Claimed
    timeout: timedelta
    owner: Owner | None
    audience: str
    # None: the lifetime in the settings.
    lifetime: timedelta | None = None


class CallbackToken(NamedTuple):
    """A token for reports on an attempt, and the digest of the attempt's lease in it."""

    token: str
    lease: str


class Minter:
    """Mints tokens in one process. All of it except `ExecutionTokens` runs in the event loop."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Clock = database_clock,
        roles: tuple[str, ...] = (),
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.counts = MintCounts()
        self._database = database
        self._settings = settings
        self._clock = clock
        self._roles = roles
        self._identity = scheduler_actor(settings.service).id
        self._permits = Combiner(self._ask, _AT_A_TIME)
        self._signer: Signer | None = None

    def __call__(
        self, claimed: Claimed, timeout: timedelta, owner: Owner | None = None
    ) -> "ExecutionTokens":
        """Return the token source of one execution, without a query."""
        return ExecutionTokens(self, claimed, timeout, owner)

    async def mint_callback(
        self, claimed: Claimed, timeout: timedelta, owner: Owner | None
    ) -> CallbackToken:
        """Mint the token with which a remote worker reports on its attempt.

        It is valid until the deadline of the attempt. The lease ends it earlier, with the attempt.
        """
        from tenantcron.actor.execution_tokens import (  # noqa: PLC0415 -- see `_signing`
            CALLBACKS,
            SLACK,
            lease_digest,
        )

        request = TokenRequest(claimed, timeout, owner, CALLBACKS, timeout + SLACK)
        return CallbackToken(await self.mint(request), lease_digest(*claimed.lease))

    async def mint(self, request: TokenRequest) -> str:
        """Mint a new token."""
        claimed = request.claimed
        try:
            token = await self._mint(request)
        except _RefusedError as error:
            self.counts.failed[error.failure] += 1
            log.warning(
                "token_refused",
                tenant=claimed.tenant_id,
                schedule=claimed.schedule_name,
                saga=claimed.saga_name,
                execution=str(claimed.id),
                attempt=claimed.attempt,
                audience=request.audience[:LONGEST_AUDIENCE],
                reason=error.failure.value,
                error=str(error),
            )
            raise TokenError(str(error)) from error.__cause__
        self.counts.minted += 1
        return token

    async def _mint(self, request: TokenRequest) -> str:
        _check_audience(request.audience)
        try:
            permit = await self._permits(request.claimed)
            return await self._signed(_granted(permit, request.claimed, self._identity), request)
        except (DatabaseError, SQLAlchemyError) as error:
            text = f"no token: the database is not available: {first_line(error)}"
            raise _RefusedError(MintFailure.DATABASE, text) from error
        except TenantcronError as error:
            raise _RefusedError(MintFailure.KEY, f"no token: {error}") from error

    async def _ask(self, asked: Sequence[Claimed]) -> list[Permit | None]:
        """Return the permits of executions; None for one that does not hold its lease."""
        leases = [claimed.lease for claimed in asked]
        async with self._database.transaction() as connection:
            permits = await minting.permits(
                connection, leases, identity=self._identity, at=self._clock()
            )
        return [permits.get(lease) for lease in leases]

    async def _signed(self, permit: Permit, request: TokenRequest) -> str:
        from tenantcron.actor.execution_tokens import (  # noqa: PLC0415 -- see `_signing`
            Claims,
            lease_digest,
            sign,
        )

        key = await self._signing().key(permit.kid)
        claims = Claims(
            issuer=self._settings.issuer,
            subject=self._identity,
            audience=request.audience,
            tenant=request.claimed.tenant_id,
            execution=request.claimed.id,
            attempt=request.claimed.attempt,
            lease=lease_digest(*request.claimed.lease),
            now=permit.now,
            deadline=request.claimed.started_at + request.timeout,
            lifetime=request.lifetime or self._settings.token_lifetime,
            owner=request.owner,
            roles=self._roles,
        )
        return sign(claims, key)

    def _signing(self) -> "Signer":
        # A scheduler whose handlers use no tokens does not import cryptography.
        from tenantcron.scheduler.tokens import key_material, signing_keys  # noqa: PLC0415 -- as it says

        if self._signer is None:
            who = Attribution(scheduler_actor(self._settings.service))
            material = key_material.KeyMaterial(self._settings)
            keys = signing_keys.SigningKeys(self._database, material, who, self._clock)
            self._signer = signing_keys.Signer(keys)
        return self._signer


class ExecutionTokens:
    """The token source of one claimed execution, created thousands of times a second."""

    __slots__ = ("_claimed", "_minter", "_owner", "_timeout")

    def __init__(
        self, minter: Minter, claimed: Claimed, timeout: timedelta, owner: Owner | None
    ) -> None:
        self._minter = minter
        self._claimed = claimed
        self._timeout = timeout
        self._owner = owner

    async def mint(self, audience: str) -> str:
        """Return a new token for the audience; raise TokenError if it is refused."""
        if asyncio.get_running_loop() is self._minter.loop:
            return await self._minting(audience)
        # A plain handler may run its own event loop in its thread.
        return await asyncio.wrap_future(self._submit(audience))

    def mint_plain(self, audience: str) -> str:
        """Return a new token in a plain thread."""
        future = self._submit(audience)
        try:
            return future.result(_PATIENCE.total_seconds())
        except CancelledError:
            raise TokenError("no token: the scheduler is shutting down") from None
        except TimeoutError:
            future.cancel()
            raise TokenError(f"no token within {_PATIENCE.seconds} s") from None

    def _minting(self, audience: str) -> Coroutine[object, object, str]:
        request = TokenRequest(self._claimed, self._timeout, self._owner, audience)
        return self._minter.mint(request)

    def _submit(self, audience: str) -> Future[str]:
        """Mint in the scheduler's event loop, which owns the connections."""
        minting = self._minting(audience)
        try:
            return asyncio.run_coroutine_threadsafe(minting, self._minter.loop)
        except RuntimeError:
            minting.close()
            raise TokenError("no token: the scheduler has stopped") from None


def _check_audience(audience: str) -> None:
    fits = 1 <= len(audience) <= LONGEST_AUDIENCE
    if not fits or not audience.isprintable() or audience != audience.strip():
        raise _RefusedError(
            MintFailure.AUDIENCE,
            f"no token: {audience[:LONGEST_AUDIENCE]!r} is not an audience. Use the audience that "
            f"the receiving service expects, with 1 to {LONGEST_AUDIENCE} characters",
        )


def _granted(permit: Permit | None, claimed: Claimed, identity: str) -> Permit:
    """Return the permit if it allows a token; raise an error with the reason otherwise."""
    tenant = claimed.tenant_id
    if permit is None or not permit.lease_holds:
        raise _RefusedError(
            MintFailure.LEASE,
            f"no token: execution {claimed.id} no longer holds its lease. Its attempt has ended, "
            "and another one may be running",
        )
    if permit.tenant is not TenantStatus.ACTIVE:
        raise _RefusedError(MintFailure.TENANT, f"no token: tenant {tenant} is {permit.tenant}")
    if permit.identity is not TenantStatus.ACTIVE:
        state = permit.identity or "unknown: a scheduler declares it when it starts"
        raise _RefusedError(
            MintFailure.IDENTITY, f"no token: the identity {identity} of {tenant} is {state}"
        )
    return permit
