"""Listen: notifications of changes, so that replicas need not wait for the next poll.

A notification is only a hint: changes are found by revision, due schedules by their rows. So a
notification may be lost, duplicated or late. Whenever listening starts or resumes, `on_listening`
is called, because earlier notifications were missed: poll then.

A lost connection is replaced after a wait that doubles from `FIRST_WAIT` up to `LONGEST_WAIT`, with
jitter, so that replicas do not reconnect all at once. Cancelling closes the connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from tenantcron.core.names import TenantId
from tenantcron.store.connection.database_urls import DatabaseTarget
from tenantcron.store.connection.listening import ListeningError, Notification, listening
from tenantcron.store.rows.tenant_sources import TENANTS_CHANGED
from tenantcron.store.rows.tenants import SCHEDULES_CHANGED
from tenantcron.store.steps.claiming import WORK

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0

Wait = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Hints:
    """Callbacks for notifications. They must be short: set an event, and work elsewhere."""

    on_schedules: Callable[[TenantId], None]
    on_work: Callable[[str], None]
    on_listening: Callable[[], None]
    # With the reason, for the log.
    on_lost: Callable[[str], None]
    # The platform has changed its tenants.
    on_tenants: Callable[[], None] = lambda: None


async def listen(
    target: DatabaseTarget, hints: Hints, random: Random, wait: Wait = asyncio.sleep
) -> None:
    """Dispatch notifications until cancelled."""
    backoff = Backoff(random)
    while True:
        try:
            async with listening(target, SCHEDULES_CHANGED, WORK, TENANTS_CHANGED) as heard:
                hints.on_listening()
                backoff = Backoff(random)
                async for notification in heard:
                    _dispatch(notification, hints)
        except ListeningError as error:
            hints.on_lost(str(error))
        await wait(backoff.draw())
        backoff = backoff.longer()


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait before the next try."""

    random: Random
    seconds: float = FIRST_WAIT

    def draw(self) -> float:
        """Return the wait, shortened by up to a half."""
        return self.seconds * (1 - self.random.random() / 2)

    def longer(self) -> "Backoff":
        """Return the backoff after one more failure."""
        return Backoff(self.random, min(self.seconds * 2, LONGEST_WAIT))


def _dispatch(heard: Notification, hints: Hints) -> None:
    if heard.channel == WORK:
        hints.on_work(heard.payload)
    elif heard.channel == TENANTS_CHANGED:
        hints.on_tenants()
    else:
        hints.on_schedules(TenantId(heard.payload))
