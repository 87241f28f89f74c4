"""Resolve host names without blocking the event loop.

The system's resolver blocks its thread, sometimes for minutes. So each lookup has its own thread,
which concurrent callers for the same name share. A caller may stop waiting at any time; the thread
ends when the system answers.

Two limits keep slow lookups from using up all threads. A tenant has at most `MOST_OF_A_TENANT`
concurrent lookups; its next one waits for one of these, as long as its caller does. All tenants
together have at most `MOST_LOOKUPS`; further names fail immediately.
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

# The tenant of the lookup; the HTTP library between the caller and the resolver has no parameter
# for it. Empty: the platform itself, for a webhook or an owner check.
asking_tenant: ContextVar[str] = ContextVar("asking_tenant", default="")

# Returns the addresses of a host; raises an OSError if there are none.
Resolve = Callable[[str], Awaitable[Sequence[str]]]
LookUp = Callable[[str], Sequence[str]]
# The result may be an error as a value: there may be no caller left to raise it for.
_Lookup = Future["Sequence[str] | ResolvingError"]

log = structlog.get_logger(__name__)


class ResolvingError(OSError):
    """The name cannot be resolved now; the text has the reason."""


class Resolver:
    """Resolves names with the system's resolver."""

    def __init__(
        self,
        look_up: LookUp | None = None,
        most: int = MOST_LOOKUPS,
        most_of_a_tenant: int = MOST_OF_A_TENANT,
    ) -> None:
        self._look_up = look_up or _look_up
        self._most = most
        self._most_of_a_tenant = most_of_a_tenant
        self._under_way: dict[str, _Lookup] = {}
        # The same lookups by the tenant that started them.
        self._of_tenant: dict[str, set[_Lookup]] = {}

    async def __call__(self, host: str) -> Sequence[str]:
        """Return the addresses of a host."""
        tenant = asking_tenant.get()
        while host not in self._under_way and self._is_full(tenant):
            await asyncio.wait(self._of_tenant[tenant], return_when=asyncio.FIRST_COMPLETED)
        found = await asyncio.shield(self._under_way.get(host) or self._start(host, tenant))
        if isinstance(found, ResolvingError):
            raise found
        return found

    def _is_full(self, tenant: str) -> bool:
        return len(self._of_tenant.get(tenant, ())) >= self._most_of_a_tenant

    def _start(self, host: str, tenant: str) -> _Lookup:
        if len(self._under_way) >= self._most:
            log.warning("resolver_busy", lookups=len(self._under_way))
            raise ResolvingError(
                f"{host} cannot be resolved: {len(self._under_way)} other lookups are still "
                "running in the system's resolver"
            )
        loop = asyncio.get_running_loop()
        lookup: _Lookup = loop.create_future()

        def finish(found: Sequence[str] | ResolvingError) -> None:
            del self._under_way[host]
            self._forget(tenant, lookup)
            lookup.set_result(found)

        def body() -> None:
            found = self._found(host)
            # A closed loop: the scheduler is exiting.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, found)

        try:
            start_thread(f"look up {host}", body)
        except RuntimeError as error:  # the system has no thread left
            raise ResolvingError(f"{host} cannot be resolved: {error}") from error
        self._under_way[host] = lookup
        self._of_tenant.setdefault(tenant, set()).add(lookup)
        return lookup

    def _forget(self, tenant: str, lookup: _Lookup) -> None:
        under_way = self._of_tenant[tenant]
        under_way.discard(lookup)
        if not under_way:
            del self._of_tenant[tenant]

    def _found(self, host: str) -> Sequence[str] | ResolvingError:
        try:
            return self._look_up(host)
        except (OSError, UnicodeError) as error:
            text = error.strerror if isinstance(error, OSError) else None
            return ResolvingError(f"{host} cannot be resolved: {text or error}")


def _look_up(host: str) -> Sequence[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
