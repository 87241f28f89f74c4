"""Hand over: give the lease of an attempt to the attempt itself, for a remote worker.

`store/steps/callbacks.py` has the protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, TypeVar

import structlog
from sqlalchemy.exc import OperationalError

from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.combining import Combiner
from tenantcron.scheduler.tokens.token_minting import Minter
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import ConflictError, DatabaseAwayError
from tenantcron.store.steps import callbacks
from tenantcron.store.steps.callbacks import HandedOver, RemoteLimits
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.contract import Callback
from tenantcron.targets.responses import FailCall, RetryCall
from tenantcron.targets.tokens import TokenError

T = TypeVar("T")
log = structlog.get_logger(__name__)

# Errors that end without a change of ours.
_PASSING: Final = (DatabaseAwayError, ConflictError, OperationalError)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 3.0
# The most attempts in one transaction.
_AT_ONCE: Final = 200
_NO_URL = "remote workers need the setting callback_url: the URL at which they reach the API"


class HandOvers:
    """Hands over the attempts of one replica; concurrent ones share a transaction."""

    def __init__(
        self,
        database: Database,
        tokens: Minter,
        callback_url: str | None,
        clock: Clock = database_clock,
    ) -> None:
        self._database = database
        self._tokens = tokens
        self._callback_url = callback_url
        self._clock = clock
        self._together = Combiner(self._hand_over_free, _AT_ONCE)

    async def __call__(
        self,
        claimed: Claimed,
        settings: ScheduleSettings,
        heartbeat: timedelta,
        first: timedelta | None = None,
        /,
    ) -> Callback:
        """Hand an attempt over; raise a RetryCall or a FailCall if that is not possible."""
        if self._callback_url is None:
            raise FailCall(_NO_URL)
        try:
            # First, because a worker without a token could not report anything.
            callback = await _patiently(
                lambda: self._tokens.mint_callback(claimed, settings.timeout, settings.owner)
            )
        except TokenError as error:
            raise RetryCall(f"no callback token: {error}") from error
        limits = RemoteLimits(heartbeat, claimed.started_at + settings.timeout, first)
        attempt = HandedOver(claimed, callback.lease, limits)
        if not await _patiently(lambda: self._done(attempt)):
            raise RetryCall("the lease was lost before the call")
        url = f"{self._callback_url.rstrip('/')}/v1/executions/{claimed.id}"
        return Callback(url, callback.token, heartbeat, limits.deadline)

    async def _done(self, attempt: HandedOver) -> bool:
        return await self._together(attempt) or await self._alone(attempt)

    async def _hand_over_free(self, attempts: Sequence[HandedOver]) -> list[bool]:
        async with self._database.transaction(by_key=True) as connection:
            done = await callbacks.hand_over_free(connection, attempts, self._clock())
        return [attempt.claimed.id in done for attempt in attempts]

    async def _alone(self, attempt: HandedOver) -> bool:
        async with self._database.transaction(by_key=True) as connection:
            return await callbacks.hand_over(connection, attempt, self._clock())


async def _patiently(step: Callable[[], Awaitable[T]]) -> T:
    """Repeat a step while the database is away: nothing was sent, so no attempt is used up.

    The timeout of the attempt or the loss of its lease ends it. A step that was committed without a
    response has the same effect again.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            return await step()
        except (TokenError, *_PASSING) as error:
            cause = error.__cause__ if isinstance(error, TokenError) else error
            if not isinstance(cause, _PASSING):
                raise
            log.warning("hand_over_delayed", error=first_line(error))
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
