"""What a handler is given: the execution that it runs, and how it gets transactions and tokens."""

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
    """Opens transactions on the schema of one execution's tenant, in the name of its actor."""

    def begin(self) -> AsyncTransaction:
        """Begin one in the running event loop."""

    def begin_plain(self) -> Transaction:
        """Begin one in the current thread."""


@final
class Cancellation:
    """Two flags from the scheduler to a handler; setting and reading them needs no lock.

    `requested`: stop soon. `closed`: the attempt has ended, and another one may be running.
    `on_close` is what ends a handler that cannot read the flags, from any thread.
    """

    __slots__ = ("closed", "on_close", "requested")

    def __init__(self) -> None:
        self.requested = False
        self.closed = False
        self.on_close: Callable[[], None] | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One attempt to run a saga.

    `scheduled_for` is the planned time, whenever it really starts. `id` is the same for every
    attempt: pass it on as the idempotency key of what must happen once only.
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
    # On whose behalf; it does not make them the actor.
    owner: Owner | None = None
    _transactions: Transactions = field(repr=False, compare=False)
    _tokens: Tokens = field(default=NO_TOKENS, repr=False, compare=False)
    _cancellation: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)

    def connection(self) -> "TenantConnection":
        """One transaction on the tenant's own schema; committed at the end of the block.

        `async with` in an async handler, `with` in a plain one. An exception rolls it back. So
        does the end of the attempt, if that came before: then `Cancelled` is raised.
        """
        return TenantConnection(self._transactions, self._cancellation)

    def token(self, audience: str) -> Awaitable[str]:
        """A fresh token that proves this execution to one service; for async handlers.

        It is for that audience alone, and ends a minute after the deadline. Ask for it where it is
        used. A `TokenError` if there can be none, `Cancelled` once the attempt has ended.
        """
        self._check_tokens(has_loop=True, instead="token_plain(audience)")
        return self._tokens.mint(audience)

    def token_plain(self, audience: str) -> str:
        """The same, for plain handlers."""
        self._check_tokens(has_loop=False, instead="await execution.token(audience)")
        return self._tokens.mint_plain(audience)

    def _check_tokens(self, *, has_loop: bool, instead: str) -> None:
        """A coroutine that nobody awaits would be sent as a token; waiting would block the loop."""
        if _in_event_loop() is not has_loop:
            raise RuntimeError(f"this is {'not ' if has_loop else ''}an event loop: use {instead}")
        if self._cancellation.closed:
            raise Cancelled("the attempt has ended: there are no more tokens for it")

    @property
    def cancelled(self) -> bool:
        """Whether to stop: cancelled, timed out, or the scheduler goes down."""
        return self._cancellation.requested

    def raise_if_cancelled(self) -> None:
        """Raise `Cancelled` if so; for plain functions, which nobody can stop from outside."""
        if self._cancellation.requested:
            raise Cancelled("the execution was cancelled, or its time is up")


@final
class TenantConnection:
    """A transaction that is yet to be begun, by `with` or by `async with`."""

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
            raise Cancelled("the attempt has ended: there are no more transactions for it")

    def _late(self, error: BaseException | None) -> Cancelled | None:
        """A result that comes too late must not be committed: the next attempt may be running."""
        if error is not None or not self._cancellation.closed:
            return None
        return Cancelled("the attempt ended before its transaction: rolled back")


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
