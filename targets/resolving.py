"""Names to addresses, without a wait that nobody bounds.

The resolver of the system blocks its thread, for minutes at times. So each name that is looked up
has a thread of its own, which whoever asks for the same name meanwhile shares, and there is a bound
on them all: if so many names hang, further ones fail at once instead of waiting unseen. Who asks
may leave at any time; the thread ends when the system answers, and is in nobody's way until then.
"""

import asyncio
import socket
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from tenantcron.targets.calls import start_thread

MOST_LOOKUPS: Final = 32

# A host in, its addresses out; an OSError if there are none.
Resolve = Callable[[str], Awaitable[Sequence[str]]]
LookUp = Callable[[str], Sequence[str]]

log = structlog.get_logger(__name__)


class ResolvingError(OSError):
    """The name has no address now; the text says why."""


class Resolver:
    """Looks up names by the system's resolver."""

    def __init__(self, look_up: LookUp | None = None, most: int = MOST_LOOKUPS) -> None:
        self._look_up = look_up or _look_up
        self._most = most
        # The answer is a value also when it is an error: there may be nobody left to hear of it.
        self._under_way: dict[str, Future[Sequence[str] | ResolvingError]] = {}

    async def __call__(self, host: str) -> Sequence[str]:
        """Return the addresses of a host."""
        answer = await asyncio.shield(self._under_way.get(host) or self._start(host))
        if isinstance(answer, ResolvingError):
            raise answer
        return answer

    def _start(self, host: str) -> "Future[Sequence[str] | ResolvingError]":
        if len(self._under_way) >= self._most:
            log.warning("resolver_busy", lookups=len(self._under_way))
            raise ResolvingError(
                f"{host} cannot be looked up: {len(self._under_way)} other names hang in the "
                "system's resolver"
            )
        loop = asyncio.get_running_loop()
        answered: Future[Sequence[str] | ResolvingError] = loop.create_future()

        def answer(found: Sequence[str] | ResolvingError) -> None:
            del self._under_way[host]
            answered.set_result(found)

        def body() -> None:
            found = self._found(host)
            # A closed loop: the scheduler is gone, and nobody asks any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(answer, found)

        try:
            start_thread(f"look up {host}", body)
        except RuntimeError as error:  # the system has no thread left
            raise ResolvingError(f"{host} cannot be looked up: {error}") from error
        self._under_way[host] = answered
        return answered

    def _found(self, host: str) -> Sequence[str] | ResolvingError:
        try:
            return self._look_up(host)
        except (OSError, UnicodeError) as error:
            said = error.strerror if isinstance(error, OSError) else None
            return ResolvingError(f"{host} cannot be looked up: {said or error}")


def _look_up(host: str) -> Sequence[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
