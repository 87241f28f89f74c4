"""The argument of a handler: the execution, with access to transactions and tokens."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Protocol, final
from uuid import UUID

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.model import AnyActor
from tenantcron.core.names import Owner, SagaName, ScheduleName, TenantId
from tenantcron.core.values import JsonObject
from tenantcron.targets.no_tokens import NO_TOKENS
from tenantcron.targets.signals import Cancelled
from tenantcron.targets.tokens import Tokens

Transaction = AbstractContextManager[Connection]
AsyncTransaction = AbstractAsyncContextManager[AsyncConnection]


class Transactions(Protocol):
    """Opens transactions on the schema of the execution's tenant, as its actor."""

    def begin(self) -> AsyncTransaction:
        """Begin a transaction in the running event loop."""

    def begin_plain(self) -> Transaction:
        """Begin a transaction in the current thread."""


@final
class Cancellation:
    """Flags from the scheduler to a handler; they need no lock.

    `requested`: stop soon. `closed`: the attempt has ended, and another one may be running.
    `interrupted`: only this attempt stops, and another one continues the execution.
    `on_close` stops a handler that cannot read the flags; any thread may call it.
    """

    __slots__ = ("closed", "interrupted", "on_close", "requested")

    def __init__(self) -> None:
        self.requested = False
        self.closed = False
        self.interrupted = False
        self.on_close: Callable[[], None] | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One attempt to run a saga.

    `scheduled_for` is the planned time, whatever the actual start. `id` is the same for every
    attempt: use it as an idempotency key for effects that must happen only once.
    """

    id: UUID
    tenant_id: TenantId
    schedule_name: ScheduleName
    saga_name: SagaName
    scheduled_for: datetime
    attempt: int
    payload: JsonObject
    deadline: datetime
    actor: AnyActor
    # The user on whose behalf it runs, who is not the actor.
    owner: Owner | None = None
    _transactions: Transactions = field(repr=False, compare=False)
    _tokens: Tokens = field(default=NO_TOKENS, repr=False, compare=False)
    _cancellation: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)

    @property
    def fence(self) -> int:
        """A number that grows with every start of the execution.

        An attempt that was started later has a larger one, whatever happened to the earlier
        attempt: a failure, a lost worker, or a retry by an operator. A claim that is released
        before its start gives its number back, and nothing was sent with it.
        """
        return self.attempt

    def connection(self) -> "TenantConnection":
        """Return a transaction on the tenant's schema, committed at the end of the block.

        Use `async with` in an async handler, `with` in a plain one. An exception rolls it back. If
        the attempt has ended before, it is rolled back as well, and `Cancelled` is raised.
        """
        return TenantConnection(self._transactions, self._cancellation)

    def token(self, audience: str) -> Awaitable[str]:
        """Return a new token that authenticates this execution to one service, for async handlers.

        It is valid only for that audience, and at most until a minute after the deadline. Request
        it right before use. Raises a `TokenError` if there is none, and `Cancelled` after the end
        of the attempt.
        """
        self._check_tokens(has_loop=True, instead="token_plain(audience)")
        return self._tokens.mint(audience)

    def token_plain(self, audience: str) -> str:
        """Return a new token, for plain handlers."""
        self._check_tokens(has_loop=False, instead="await execution.token(audience)")
        return self._tokens.mint_plain(audience)

    def _check_tokens(self, *, has_loop: bool, instead: str) -> None:
        """Reject the wrong method: a plain handler cannot await, and waiting blocks the loop."""
        if _in_event_loop() is not has_loop:
            raise RuntimeError(f"this is {'not ' if has_loop else ''}an event loop: use {instead}")
        if self._cancellation.closed:
            raise Cancelled("the attempt has ended, so it gets no more tokens")

    @property
    def cancelled(self) -> bool:
        """Whether to stop: cancelled, timed out, or the scheduler shuts down."""
        return self._cancellation.requested

    def raise_if_cancelled(self) -> None:
        """Raise `Cancelled` if so; for plain functions, which cannot be stopped from outside."""
        if self._cancellation.requested:
            raise Cancelled("the execution was cancelled, or its time is up")


@final
class TenantConnection:
    """A transaction that `with` or `async with` begins."""

    __slots__ = ("_async", "_cancellation", "_plain", "_transactions")

    def __init__(self, transactions: Transactions, cancellation: Cancellation) -> None:
        self._transactions = transactions
        self._cancellation = cancellation
        self._plain: Transaction | None = None
        self._async: AsyncTransaction | None = None

    def __enter__(self) -> Connection:
        self._check()
        self._plain = self._transactions.begin_plain()
        return self._plain.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._plain is None:
            raise RuntimeError("the connection was not opened")
        late = self._late(error)
        if late is None:
            self._plain.__exit__(kind, error, traceback)
            return
        self._plain.__exit__(Cancelled, late, None)
        raise late

    async def __aenter__(self) -> AsyncConnection:
        self._check()
        self._async = self._transactions.begin()
        return await self._async.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._async is None:
            raise RuntimeError("the connection was not opened")
        late = self._late(error)
        if late is None:
            await self._async.__aexit__(kind, error, traceback)
            return
        await self._async.__aexit__(Cancelled, late, None)
        raise late

    def _check(self) -> None:
        if self._plain is not None or self._async is not None:
            raise RuntimeError("one connection() is one transaction: call connection() again")
        if self._cancellation.closed:
            raise Cancelled("the attempt has ended, so it gets no more transactions")

    def _late(self, error: BaseException | None) -> Cancelled | None:
        """Return an error if the attempt has ended: the next attempt may be running already."""
        if error is not None or not self._cancellation.closed:
            return None
        return Cancelled("the attempt ended before its transaction: rolled back")


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
