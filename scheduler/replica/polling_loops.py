"""Loops that sleep until there is work, and that retry while the database is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.core.wake_signal import WakeSignal
from tenantcron.scheduler.replica.progress import Progress
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import ConflictError, DatabaseError

log = structlog.get_logger(__name__)

# The step that the current task runs; the lock watch logs it.
CURRENT_STEP: ContextVar[str | None] = ContextVar("tenantcron_step", default=None)
# A loop wakes up after this many seconds at the latest, because a notification may be lost.
LONGEST_SLEEP = 10.0
# The sleep if another replica has locked what is due; it is done in a moment.
_SHORTEST_SLEEP = 0.01
# The sleep if something became due while its query was answered; no replica has locked it yet.
_AT_ONCE = 0.0001
# Short, so that work continues soon after the database is back.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 3.0

# Does the work that is due now, and returns the seconds until there may be more.
Step = Callable[[], Awaitable[float]]


async def run_loop(
    name: str,
    step: Step,
    wake_signal: WakeSignal,
    stopping: asyncio.Event,
    progress: Progress | None = None,
) -> None:
    """Run a step repeatedly until `stopping` is set; set the wake signal as well to stop at once.

    Main loops pass a `progress` to record it.
    """
    CURRENT_STEP.set(name)
    failures = 0
    while not stopping.is_set():
        if progress is not None:
            progress.began(name)
        try:
            seconds = await step()
        except ConflictError:
            continue  # the other transaction has ended by now
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
            await wake_signal.wait(seconds)


async def _pause(failures: int, stopping: asyncio.Event) -> None:
    """Wait longer after each failure. Ignore the wake signal, which may be set all the time."""
    seconds = min(_FIRST_PAUSE * 2 ** min(failures, 10), _LONGEST_PAUSE)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()


async def seconds_left(query: Callable[[], Awaitable[float | None]]) -> float | None:
    """Return the seconds that a query returns, less the time that the query took."""
    now = asyncio.get_running_loop().time
    began = now()
    seconds = await query()
    if seconds is None or seconds <= 0:
        return seconds
    return max(seconds - (now() - began), _AT_ONCE)


def sleep_time(seconds: float | None) -> float:
    """Return how long a loop sleeps whose next work is due in so many seconds; None: no work."""
    if seconds is None:
        return LONGEST_SLEEP
    return min(seconds, LONGEST_SLEEP) if seconds > 0 else _SHORTEST_SLEEP
