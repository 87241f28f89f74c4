"""Names to addresses, without a wait that nobody bounds.

The resolver of the system blocks its thread, for minutes at times. So each name that is looked up
has its own thread, which later callers share if they ask for the same name meanwhile. A caller may
leave at any time; the thread ends when the system answers.

Two bounds keep names that hang from taking all threads. A tenant has at most `MOST_OF_A_TENANT`
look-ups at a time; its next one waits for one of these, as long as the caller does. All tenants
together have at most `MOST_LOOKUPS`; further names fail at once instead of waiting unseen.
"""

import asyncio
import socket
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Final

import structlog

from tenantcron.targets.calls import start_thread

MOST_LOOKUPS: Final = 64
MOST_OF_A_TENANT: Final = 4

# The tenant that a name is looked up for; the HTTP library between the caller and the resolver has
# no parameter for it. Empty: the platform itself, for a webhook or an owner check.
asking_tenant: ContextVar[str] = ContextVar("asking_tenant", default="")

# A host in, its addresses out; an OSError if there are none.
Resolve = Callable[[str], Awaitable[Sequence[str]]]
LookUp = Callable[[str], Sequence[str]]
# The answer is a value also when it is an error: there may be no caller left to raise it for.
_Answered = Future["Sequence[str] | ResolvingError"]

log = structlog.get_logger(__name__)


class ResolvingError(OSError):
    """The name has no address now; the text says why."""


class Resolver:
    """Looks up names by the system's resolver."""

    def __init__(
        self,
        look_up: LookUp | None = None,
        most: int = MOST_LOOKUPS,
        most_of_a_tenant: int = MOST_OF_A_TENANT,
    ) -> None:
        self._look_up = look_up or _look_up
        self._most = most
        self._most_of_a_tenant = most_of_a_tenant
        self._under_way: dict[str, _Answered] = {}
        # The same by the tenant that asked first.
        self._of_tenant: dict[str, set[_Answered]] = {}

    async def __call__(self, host: str) -> Sequence[str]:
        """Return the addresses of a host."""
        tenant = asking_tenant.get()
        while host not in self._under_way and self._is_full(tenant):
            await asyncio.wait(self._of_tenant[tenant], return_when=asyncio.FIRST_COMPLETED)
        answer = await asyncio.shield(self._under_way.get(host) or self._start(host, tenant))
        if isinstance(answer, ResolvingError):
            raise answer
        return answer

    def _is_full(self, tenant: str) -> bool:
        return len(self._of_tenant.get(tenant, ())) >= self._most_of_a_tenant

    def _start(self, host: str, tenant: str) -> _Answered:
        if len(self._under_way) >= self._most:
            log.warning("resolver_busy", lookups=len(self._under_way))
            raise ResolvingError(
                f"{host} cannot be looked up: {len(self._under_way)} other names hang in the "
                "system's resolver"
            )
        loop = asyncio.get_running_loop()
        answered: _Answered = loop.create_future()

        def answer(found: Sequence[str] | ResolvingError) -> None:
            del self._under_way[host]
            self._forget(tenant, answered)
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
        self._of_tenant.setdefault(tenant, set()).add(answered)
        return answered

    def _forget(self, tenant: str, answered: _Answered) -> None:
        under_way = self._of_tenant[tenant]
        under_way.discard(answered)
        if not under_way:
            del self._of_tenant[tenant]

    def _found(self, host: str) -> Sequence[str] | ResolvingError:
        try:
            return self._look_up(host)
        except (OSError, UnicodeError) as error:
            said = error.strerror if isinstance(error, OSError) else None
            return ResolvingError(f"{host} cannot be looked up: {said or error}")


def _look_up(host: str) -> Sequence[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
