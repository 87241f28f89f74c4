"""Allowances: how many reads of a token a process may serve before it asks the database again.

To find a token and count a request takes a round trip and a row that is written, which is more than
many a read itself costs. So a process takes several requests at once for a token that is busy:

- **Who decides** is the database. What a process may serve was counted there before, so all
  processes together never serve more than the limit. The proof comes with it: the token as it was.
- **How many**: one at first, twice as many each time that they were used up within a second. Never
  more than a tenth of what is left of the minute, so that the last requests are counted one by one,
  and those that one process holds are hardly missed by another.
- **How long**: a second. Then the process asks again, and gives back what it did not use. So a
  revocation holds for reads within a second, and at once for a token that is not busy.
- **Failures**: a process that dies has counted requests that never come, until the minute ends. A
  connection that is lost while something is given back may give it back twice: then a few requests
  too many are served in that minute. If the database does not answer, nothing is served on credit.

Changes are proven and counted one by one: a token that was revoked changes nothing any more.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from tenantcron.actor.api_tokens import PresentedToken
from tenantcron.service.problems import unavailable
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import api_tokens
from tenantcron.store.rows.api_tokens import TokenRequest, Unused
from tenantcron.store.rows.api_usage import Usage

# How long a proof counts for reads, in seconds.
LIFE: Final = 1.0
# The part of a minute's rest that is taken at once, at most.
_PART: Final = 10
# From so many tokens on, those that were not seen for a while are forgotten.
_MANY: Final = 1_000


@dataclass(slots=True)
class _Allowance:
    """What a process holds for one token, and who waits for more."""

    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    found: TokenRequest | None = None
    asked_at: float = float("-inf")
    taken: int = 0
    left: int = 0


class Allowances:
    """What one process may serve, by token; the secret is part of the key."""

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

    async def change(self, presented: PresentedToken) -> TokenRequest | None:
        """Prove and count one request, now; None if there is no such token."""
        return await self._asked(presented, 1, None)

    async def read(self, presented: PresentedToken) -> TokenRequest | None:
        """Prove and count a request that changes nothing; None if there is no such token."""
        held = self._held.get(presented) or self._begin(presented)
        if (found := self._served(held)) is not None:
            return found
        held.waiting += 1
        try:
            async with held.asking:
                # Whoever was ahead may have taken enough for all who wait.
                return self._served(held) or await self._more(presented, held)
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

    def _served(self, held: _Allowance) -> TokenRequest | None:
        """Serve one request out of what is held, if its time is not over."""
        age = self._clock() - held.asked_at
        if held.found is None or not held.left or age >= LIFE:
            return None
        held.left -= 1
        return replace(held.found, now=held.found.now + timedelta(seconds=age))

    async def _more(self, presented: PresentedToken, held: _Allowance) -> TokenRequest | None:
        """Take what is needed next, and serve one request out of it."""
        asked_at, wanted = self._clock(), self._wanted(held)
        unused = Unused(_window(held.found), held.left)
        held.left = 0
        found = await self._asked(presented, wanted, unused)
        if found is None or found.usage is None:
            # It proves nothing, so nothing was counted, and nobody else is to meet it here.
            self._held.pop(presented, None)
            return found
        allowed = max(0, wanted - max(0, found.usage.requests - self._limit))
        held.found = replace(found, usage=_first(found.usage, wanted))
        held.asked_at, held.taken, held.left = asked_at, wanted, max(0, allowed - 1)
        return held.found

    def _wanted(self, held: _Allowance) -> int:
        """Return how many requests to take: those that wait, or those that will come."""
        age = self._clock() - held.asked_at
        used = held.taken - held.left
        usage = None if held.found is None else held.found.usage
        if usage is None or age >= 2 * LIFE:
            return held.waiting
        coming = used if age >= LIFE else 2 * used
        rest = self._limit - usage.requests - held.taken
        return max(held.waiting, min(coming, rest // _PART))

    async def _asked(
        self, presented: PresentedToken, requests: int, unused: Unused | None
    ) -> TokenRequest | None:
        try:
            async with asyncio.timeout(self._patience):
                return await api_tokens.request(self._database, presented, requests, unused)
        except TimeoutError as error:
            raise unavailable() from error


def _window(found: TokenRequest | None) -> datetime | None:
    return None if found is None else found.window


def _first(usage: Usage, taken: int) -> Usage:
    """Return the count as it was with the first of those that were taken."""
    return replace(usage, requests=usage.requests - taken + 1)
