"""What the delivery of events shares: the database, the clock, the counters and the backoff."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Final

from tenantcron.actor.model import Actor
from tenantcron.core.clock import Clock
from tenantcron.store.connection.engine import Database

_FIRST_WAIT: Final = 1.0
# This many doublings exceed the longest wait.
_MOST_DOUBLINGS: Final = 20


@dataclass(slots=True)
class EventCounts:
    """The counters of one process since it started."""

    # Delivered events and failed requests, by webhook.
    delivered: Counter[str] = field(default_factory=Counter)
    webhook_failures: Counter[str] = field(default_factory=Counter)
    # Published events and failed leases, by event bus.
    published: Counter[str] = field(default_factory=Counter)
    bus_failures: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """The parts of a replica that deliver its events."""

    database: Database
    # The actor that disables a webhook or declares a bus.
    actor: Actor
    clock: Clock
    random: Random
    counts: EventCounts


def wait_after(failures: int, random: Random, longest: timedelta) -> timedelta:
    """Return the backoff: a random time below a bound that doubles per failure."""
    bound = _FIRST_WAIT * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
    return timedelta(seconds=random.uniform(0, min(bound, longest.total_seconds())))
