"""Rates of calls in the form `50/s`, `600/m`, `1000/h`."""

import re
from typing import Final, NamedTuple

from tenantcron.core.errors import TenantcronError

PATTERN: Final = "([1-9][0-9]{0,5})/(s|m|h)"
EXPECTED: Final = "a rate such as 50/s, 600/m or 1000/h"
# Calls that were not made in the last half second may be made at once.
_BURST_SECONDS: Final = 0.5
# Calls of a host that is at its limit start in groups, because each group costs a claim.
_GROUP_SECONDS: Final = 0.1

_RATE = re.compile(PATTERN)
_SECONDS = {"s": 1, "m": 60, "h": 3_600}


class RateError(TenantcronError):
    """The text is not a rate."""


class Rate(NamedTuple):
    """How many calls may be made in how many seconds."""

    calls: int
    seconds: int

    @property
    def interval(self) -> float:
        """Seconds between two calls at this rate."""
        return self.seconds / self.calls

    @property
    def burst(self) -> float:
        """How many seconds of unused calls may be made at once: at least one call."""
        return max(self.interval, _BURST_SECONDS)

    @property
    def group(self) -> float:
        """How many seconds of calls start together while more are pending: at least one call."""
        return max(self.interval, _GROUP_SECONDS)

    def most(self, seconds: float) -> int:
        """Return the largest number of calls within so many seconds."""
        return int((seconds + self.burst) / self.interval)

    def __str__(self) -> str:
        """Return the rate as it is written."""
        units = {seconds: unit for unit, seconds in _SECONDS.items()}
        return f"{self.calls}/{units[self.seconds]}"


def parse_rate(text: str) -> Rate:
    """Parse a rate."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise RateError(f"{text!r} is not {EXPECTED}")
    return Rate(int(match[1]), _SECONDS[match[2]])
