"""A call of the platform's code in its own thread, which may never return."""

import asyncio
from asyncio import Future
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from tenantcron.targets.calls import start_thread

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """The result or the exception of a call."""

    result: T | None = None
    error: Exception | None = None


def in_own_thread(name: str, function: Callable[[], T]) -> "Future[T]":
    """Call a function in a daemon thread. A hanging call does not keep the process from exiting."""
    loop = asyncio.get_running_loop()
    returned: Future[T] = loop.create_future()

    def deliver(outcome: _Outcome[T]) -> None:
        if returned.cancelled():
            return
        if outcome.error is not None:
            returned.set_exception(outcome.error)
            # The caller may have stopped waiting, and asyncio would then log an error.
            returned.exception()
        else:
            returned.set_result(cast("T", outcome.result))

    def body() -> None:
        outcome = _called(function)
        # The loop is closed: the process is about to exit.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, outcome)

    start_thread(name, body)
    return returned


def _called(function: Callable[[], T]) -> _Outcome[T]:
    try:
        return _Outcome(function())
    except BaseException as error:  # noqa: BLE001 -- the future raises it
        # A future rejects StopIteration, and SystemExit would end the scheduler.
        is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
        wrapped = RuntimeError(f"{type(error).__name__}: {error}")
        return _Outcome(error=cast("Exception", error) if is_plain else wrapped)
