"""Loops that sleep until there is something to do, and outlast a database that is away."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import TypeVar

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.scheduler.replica.progress import Progress
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import ConflictError, DatabaseError

log = structlog.get_logger(__name__)

T = TypeVar("T")

# The step that the current task takes, for those who look at what it waits for.
CURRENT_STEP: ContextVar[str | None] = ContextVar("tenantcron_step", default=None)
# Work continues soon after the database is back, whatever the number of failures before.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 3.0

# It does what there is to do now, and says for how many seconds there is nothing more.
Step = Callable[[], Awaitable[float]]


class Bell:
    """Wakes a loop before its time. Rung many times before the loop looks, it wakes it once."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        # Whether the last wait ended by the bell. Otherwise the time was over.
        self.rang = True

    def ring(self) -> None:
        """Wake whoever waits, or whoever comes to wait next."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Wait for the bell, at most that long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self.rang = self._rung.is_set()
        self._rung.clear()


async def insist(step: Callable[[], Awaitable[T]]) -> T:
    """Take a step once, again if somebody else was at the same rows at the same moment."""
    while True:
        with suppress(ConflictError):
            return await step()


async def repeat(
    name: str,
    step: Step,
    bell: Bell,
    stopping: asyncio.Event,
    progress: Progress | None = None,
) -> None:
    """Take the step again and again until it is time to stop; the bell rings for that, too.

    Main loops note their progress.
    """
    CURRENT_STEP.set(name)
    failures = 0
    while not stopping.is_set():
        if progress is not None:
            progress.began(name)
        try:
            seconds = await step()
        except ConflictError:
            continue  # the other one is done by now
        except (DatabaseError, DBAPIError) as error:
            failures += 1
            log.error("step_failed", step=name, failures=failures, error=first_line(error))
            if progress is not None:
                progress.ended(name, _LONGEST_PAUSE, first_line(error))
            await _pause(failures, stopping)
            continue
        failures = 0
        if progress is not None:
            progress.ended(name, seconds)
        if seconds > 0 and not stopping.is_set():
            await bell.wait(seconds)


async def _pause(failures: int, stopping: asyncio.Event) -> None:
    """Wait longer after each failure, and not for the bell: it may ring all the time."""
    seconds = min(_FIRST_PAUSE * 2 ** min(failures, 10), _LONGEST_PAUSE)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
