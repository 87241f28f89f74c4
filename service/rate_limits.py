"""Rate limits of the API: requests per minute of a caller, counted in the database.

An allowance is how many reads of a token a process may serve before it queries again.

Finding a token and counting a request takes a round trip and writes a row, which costs more than
many reads. So a process reserves several requests at once for a busy token:

- **Authority**: the database. A process serves only requests that were counted there before, so
  all processes together never exceed the limit. The query also returns the token for
  authentication.
- **Size**: one request at first, twice as many each time the allowance is used up within a second.
  It never exceeds a tenth of the requests left in the minute, so the last ones are counted one by
  one.
- **Lifetime**: one second. Then the process queries again and releases unused requests. So a
  revocation takes effect within a second for reads, and at once for a token that is not busy.
- **Failures**: if a process dies, its unused requests stay counted until the minute ends. If the
  connection is lost during a release, requests may be released twice, and a few requests too many
  are served in that minute. If the database does not respond, no request is served.

Writes are authenticated and counted one by one, so a revoked token cannot write anything.

Reports of remote workers are limited per execution. Those that arrive at the same time are counted
with one statement.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Final
from uuid import UUID

from tenantcron.actor.api_tokens import PresentedToken
from tenantcron.core.combining import Combiner
from tenantcron.service.problems import ApiProblem, unavailable
from tenantcron.store.connection.engine import Database, Pins
from tenantcron.store.rows import api_tokens, api_usage
from tenantcron.store.rows.api_tokens import ApiTokenUse, Unused
from tenantcron.store.rows.api_usage import ApiUsage

# Lifetime of an allowance, in seconds.
LIFE: Final = 1.0
# An allowance is at most this fraction of the requests left in the minute.
_PART: Final = 10
# With more tokens than this, idle ones are removed from memory.
_MANY: Final = 1_000


def enforce_rate_limit(usage: ApiUsage | None, limit: int) -> None:
    """Reject a request over the rate limit of its caller."""
    if usage is None or usage.requests <= limit:
        return
    wait = max(1, usage.seconds_left)
    detail = f"the limit is {limit} requests per minute: retry in {wait} s"
    raise ApiProblem("TC709", detail, headers={"Retry-After": str(wait)})


@dataclass(slots=True)
class _Allowance:
    """The reserved requests of a token, and the number of waiting requests."""

    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    found: ApiTokenUse | None = None
    asked_at: float = float("-inf")
    taken: int = 0
    left: int = 0


class Allowances:
    """The allowances of a process by token; the secret is part of the key."""

    def __init__(
        self,
        database: Database,
        limit: int,
        patience: timedelta,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._database = database
        self._limit = limit
        self._patience = patience.total_seconds()
        self._clock = clock
        self._held: dict[PresentedToken, _Allowance] = {}

    async def change(self, presented: PresentedToken) -> ApiTokenUse | None:
        """Authenticate and count a write; None if the token does not exist."""
        return await self._query(presented, 1, None)

    async def read(self, presented: PresentedToken) -> ApiTokenUse | None:
        """Authenticate and count a read; None if the token does not exist."""
        held = self._held.get(presented) or self._begin(presented)
        if (found := self._serve(held)) is not None:
            return found
        held.waiting += 1
        try:
            async with held.asking:
                # The request before this one may have reserved enough for all waiting requests.
                return self._serve(held) or await self._reserve(presented, held)
        finally:
            held.waiting -= 1

    def _begin(self, presented: PresentedToken) -> _Allowance:
        if len(self._held) >= _MANY:
            self._forget_idle()
        return self._held.setdefault(presented, _Allowance())

    def _forget_idle(self) -> None:
        old = self._clock() - LIFE
        self._held = {
            token: held for token, held in self._held.items() if held.waiting or held.asked_at > old
        }

    def _serve(self, held: _Allowance) -> ApiTokenUse | None:
        """Serve a request from the allowance, if it has not expired."""
        age = self._clock() - held.asked_at
        if held.found is None or not held.left or age >= LIFE:
            return None
        held.left -= 1
        return replace(held.found, now=held.found.now + timedelta(seconds=age))

    async def _reserve(self, presented: PresentedToken, held: _Allowance) -> ApiTokenUse | None:
        """Reserve a new allowance and serve a request from it."""
        asked_at, size = self._clock(), self._size(held)
        unused = Unused(_window(held.found), held.left)
        held.left = 0
        found = await self._query(presented, size, unused)
        if found is None or found.usage is None:
            # The token is invalid, so nothing was counted and there is no allowance to keep.
            self._held.pop(presented, None)
            return found
        allowed = max(0, size - max(0, found.usage.requests - self._limit))
        held.found = replace(found, usage=_first(found.usage, size))
        held.asked_at, held.taken, held.left = asked_at, size, max(0, allowed - 1)
        return held.found

    def _size(self, held: _Allowance) -> int:
        """Return how many requests to reserve: the waiting ones, or the expected ones."""
        age = self._clock() - held.asked_at
        used = held.taken - held.left
        usage = None if held.found is None else held.found.usage
        if usage is None or age >= 2 * LIFE:
            return held.waiting
        coming = used if age >= LIFE else 2 * used
        rest = self._limit - usage.requests - held.taken
        return max(held.waiting, min(coming, rest // _PART))

    async def _query(
        self, presented: PresentedToken, requests: int, unused: Unused | None
    ) -> ApiTokenUse | None:
        try:
            async with asyncio.timeout(self._patience):
                return await api_tokens.request(self._database, presented, requests, unused)
        except TimeoutError as error:
            raise unavailable() from error


def _window(found: ApiTokenUse | None) -> datetime | None:
    return None if found is None else found.window


def _first(usage: ApiUsage, taken: int) -> ApiUsage:
    """Return the usage as of the first reserved request."""
    return replace(usage, requests=usage.requests - taken + 1)


# The most reports that one statement counts.
_REPORTS_AT_ONCE: Final = 200


class ReportLimit:
    """The rate limit of remote workers, per execution."""

    def __init__(self, database: Database, limit: int) -> None:
        self._database = database
        self._limit = limit
        self._count = Combiner(self._count_all, _REPORTS_AT_ONCE)

    async def admit(self, execution: UUID) -> None:
        """Count a report; raise ApiProblem if the execution has sent too many."""
        async with self._database.awaiting():
            usage = await self._count(f"execution:{execution}")
        enforce_rate_limit(usage, self._limit)

    async def _count_all(self, callers: Sequence[str]) -> list[ApiUsage]:
        async with self._database.transaction(pins=Pins.FEW) as connection:
            counted = await api_usage.count_all(connection, callers)
        return [counted[caller] for caller in callers]
