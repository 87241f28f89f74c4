"""Pace: the time until the next periodic refresh."""

from dataclasses import dataclass
from datetime import timedelta
from random import Random


@dataclass(frozen=True, slots=True)
class Pace:
    """An interval with jitter, drawn each time, so that replicas do not refresh in lockstep."""

    random: Random
    interval: timedelta = timedelta(seconds=60)
    jitter: timedelta = timedelta(seconds=10)

    def draw(self) -> timedelta:
        """Return the next wait."""
        return self.interval + self.jitter * self.random.random()
