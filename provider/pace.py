"""Pace: how long until the next periodic refresh."""

from dataclasses import dataclass
from datetime import timedelta
from random import Random


@dataclass(frozen=True, slots=True)
class Pace:
    """An interval and a random part, drawn anew every time, so that replicas are not in step."""

    random: Random
    interval: timedelta = timedelta(seconds=60)
    jitter: timedelta = timedelta(seconds=10)

    def draw(self) -> timedelta:
        """Return how long to wait this time."""
        return self.interval + self.jitter * self.random.random()
