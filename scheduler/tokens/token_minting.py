"""Tokens for executions: minted when a handler asks, for as long as its lease holds.

Nothing is made ahead and nothing is kept. For each token the database is asked anew, in one short
statement: whether the execution still runs by this very lease, whether its tenant is active, which
key signs, and what time it is. So a handler that asks again gets a fresh token; one whose lease was
taken away, or whose tenant was suspended meanwhile, gets none and is told why.

A token that cannot be minted is an error of the attempt, an event of the log, and counted.

Tokens go by the scheduler's own connections, never by those of handlers: a handler may ask for one
while it holds a transaction, and as many handlers as there are connections would wait for each
other. They take one connection at a time, so that heartbeats find one, too: who asks while the
database is being asked goes along with the next question, together with all others. Plain handlers
ask from their thread and wait for the event loop.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
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
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import Owner
from tenantcron.core.settings import Settings
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.store.steps import minting
from tenantcron.store.steps.claiming import Claimed, Lease
from tenantcron.store.steps.minting import Permit
from tenantcron.targets.tokens import TokenError

if TYPE_CHECKING:
    from tenantcron.scheduler.tokens.signing_keys import Signer

# Executions that one question is about.
_AT_A_TIME: Final = 100
# How long a plain handler waits for the event loop.
_PATIENCE: Final = timedelta(seconds=30)

log = structlog.get_logger(__name__)


class MintFailure(StrEnum):
    """Why there is no token."""

    AUDIENCE = "audience"
    LEASE = "lease"
    TENANT = "tenant"
    IDENTITY = "identity"
    KEY = "key"
    DATABASE = "database"


class _RefusedError(Exception):
    """A reason to count, and a text for people."""

    def __init__(self, failure: MintFailure, text: str) -> None:
        super().__init__(text)
        self.failure = failure


@dataclass(slots=True)
class MintCounts:
    """How many tokens this process has minted, and how many it could not, by reason."""

    minted: int = 0
    failed: Counter[MintFailure] = field(default_factory=Counter)


class Wanted(NamedTuple):
    """A token that somebody asks for."""

    claimed: Claimed
    timeout: timedelta
    owner: Owner | None
    audience: str


class Minter:
    """Mints tokens in one process; everything but `ExecutionTokens` happens in its event loop."""

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
        self._permits = _Permits(self._ask)
        self._signer: Signer | None = None

    def __call__(
        self, claimed: Claimed, timeout: timedelta, owner: Owner | None = None
    ) -> "ExecutionTokens":
        """Return the tokens of one execution; nothing is asked or made yet."""
        return ExecutionTokens(self, claimed, timeout, owner)

    async def mint(self, wanted: Wanted) -> str:
        """Return a fresh token."""
        claimed = wanted.claimed
        try:
            token = await self._mint(wanted)
        except _RefusedError as error:
            self.counts.failed[error.failure] += 1
            log.warning(
                "token_refused",
                tenant=claimed.tenant_id,
                schedule=claimed.schedule_name,
                saga=claimed.saga_name,
                execution=str(claimed.id),
                attempt=claimed.attempt,
                audience=wanted.audience[:LONGEST_AUDIENCE],
                reason=error.failure.value,
                error=str(error),
            )
            raise TokenError(str(error)) from error.__cause__
        self.counts.minted += 1
        return token

    async def _mint(self, wanted: Wanted) -> str:
        _check_audience(wanted.audience)
        try:
            permit = await self._permits.of(wanted.claimed)
            return await self._signed(_granted(permit, wanted.claimed, self._identity), wanted)
        except (DatabaseError, SQLAlchemyError) as error:
            text = f"no token, for the database cannot be asked: {first_line(error)}"
            raise _RefusedError(MintFailure.DATABASE, text) from error
        except TenantcronError as error:
            raise _RefusedError(MintFailure.KEY, f"no token: {error}") from error

    async def _ask(self, asked: Sequence[Claimed]) -> dict[Lease, Permit]:
        async with self._database.transaction() as connection:
            leases = [claimed.lease for claimed in asked]
            return await minting.permits(
                connection, leases, identity=self._identity, at=self._clock()
            )

    async def _signed(self, permit: Permit, wanted: Wanted) -> str:
        from tenantcron.actor.tokens import (  # noqa: PLC0415 -- see `_signing`
            Claims,
            lease_digest,
            sign,
        )

        key = await self._signing().key(permit.kid)
        claims = Claims(
            issuer=self._settings.issuer,
            subject=self._identity,
            audience=wanted.audience,
            tenant=wanted.claimed.tenant_id,
            execution=wanted.claimed.id,
            attempt=wanted.claimed.attempt,
            lease=lease_digest(*wanted.claimed.lease),
            now=permit.now,
            deadline=wanted.claimed.started_at + wanted.timeout,
            lifetime=self._settings.token_lifetime,
            owner=wanted.owner,
            roles=self._roles,
        )
        return sign(claims, key)

    def _signing(self) -> "Signer":
        # A scheduler whose handlers want no tokens does not pay for cryptography.
        from tenantcron.scheduler.tokens import key_material, signing_keys  # noqa: PLC0415 -- as it says

        if self._signer is None:
            who = Attribution(scheduler_actor(self._settings.service))
            material = key_material.KeyMaterial(self._settings)
            keys = signing_keys.SigningKeys(self._database, material, who, self._clock)
            self._signer = signing_keys.Signer(keys)
        return self._signer


class _Permits:
    """Asks about many executions at a time, always after they have asked."""

    def __init__(self, ask: Callable[[Sequence[Claimed]], Awaitable[dict[Lease, Permit]]]) -> None:
        self._ask = ask
        self._waiting: list[tuple[Claimed, asyncio.Future[Permit | None]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def of(self, claimed: Claimed) -> Permit | None:
        """Return what a token depends on, None if the lease is gone."""
        answer: asyncio.Future[Permit | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((claimed, answer))
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_for_all())
        return await answer

    async def _ask_for_all(self) -> None:
        try:
            while self._waiting:
                now, self._waiting = self._waiting[:_AT_A_TIME], self._waiting[_AT_A_TIME:]
                await self._answer(now)
        finally:
            self._asking = None

    async def _answer(
        self, waiting: Sequence[tuple[Claimed, "asyncio.Future[Permit | None]"]]
    ) -> None:
        # Who does not wait any more was cancelled.
        asked = [claimed for claimed, answer in waiting if not answer.done()]
        try:
            permits = await self._ask(asked)
        except Exception as error:  # noqa: BLE001 -- each of those who wait gets it
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(error)
            return
        for claimed, answer in waiting:
            if not answer.done():
                answer.set_result(permits.get(claimed.lease))


class ExecutionTokens:
    """The tokens of one claimed execution. There are thousands a second, so it only remembers."""

    __slots__ = ("_claimed", "_minter", "_owner", "_timeout")

    def __init__(
        self, minter: Minter, claimed: Claimed, timeout: timedelta, owner: Owner | None
    ) -> None:
        self._minter = minter
        self._claimed = claimed
        self._timeout = timeout
        self._owner = owner

    async def mint(self, audience: str) -> str:
        """Return a fresh token for the audience; a TokenError if there can be none."""
        if asyncio.get_running_loop() is self._minter.loop:
            return await self._minting(audience)
        # A plain handler may have an event loop of its own in its thread.
        return await asyncio.wrap_future(self._handed_over(audience))

    def mint_plain(self, audience: str) -> str:
        """Do so in a plain thread."""
        future = self._handed_over(audience)
        try:
            return future.result(_PATIENCE.total_seconds())
        except CancelledError:
            raise TokenError("no token: the scheduler goes down") from None
        except TimeoutError:
            future.cancel()
            raise TokenError(f"no token: waited {_PATIENCE.seconds} s for one") from None

    def _minting(self, audience: str) -> Coroutine[object, object, str]:
        wanted = Wanted(self._claimed, self._timeout, self._owner, audience)
        return self._minter.mint(wanted)

    def _handed_over(self, audience: str) -> Future[str]:
        """Let the scheduler's event loop do it: the connections are there."""
        minting = self._minting(audience)
        try:
            return asyncio.run_coroutine_threadsafe(minting, self._minter.loop)
        except RuntimeError:
            minting.close()
            raise TokenError("no token: the scheduler has gone") from None


def _check_audience(audience: str) -> None:
    fits = 1 <= len(audience) <= LONGEST_AUDIENCE
    if not fits or not audience.isprintable() or audience != audience.strip():
        raise _RefusedError(
            MintFailure.AUDIENCE,
            f"no token: {audience[:LONGEST_AUDIENCE]!r} is not an audience. Name the service that "
            f"it is for as that service knows itself, with 1 to {LONGEST_AUDIENCE} characters",
        )


def _granted(permit: Permit | None, claimed: Claimed, identity: str) -> Permit:
    """Refuse what may have no token, and say why."""
    tenant = claimed.tenant_id
    if permit is None or not permit.lease_holds:
        raise _RefusedError(
            MintFailure.LEASE,
            f"no token: execution {claimed.id} does not hold its lease any more. Its attempt is "
            "over, and another one may be running",
        )
    if permit.tenant is not TenantStatus.ACTIVE:
        raise _RefusedError(MintFailure.TENANT, f"no token: tenant {tenant} is {permit.tenant}")
    if permit.identity is not TenantStatus.ACTIVE:
        state = permit.identity or "unknown: a scheduler declares it when it starts"
        raise _RefusedError(
            MintFailure.IDENTITY, f"no token: the identity {identity} of {tenant} is {state}"
        )
    return permit
