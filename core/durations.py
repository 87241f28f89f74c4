"""Durations in the form `90s`, `15m`, `1h30m`, `7d`."""

import re
from datetime import timedelta
from functools import lru_cache

from tenantcron.core.errors import TenantcronError

# Units once each, largest first. The counts are bounded so that any match fits into a timedelta.
PATTERN = "([0-9]{1,4}d)?([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?"
EXPECTED = "a duration such as 90s, 15m, 1h30m or 7d"

_DURATION = re.compile(PATTERN)
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


class DurationError(TenantcronError):
    """The text is not a duration."""


@lru_cache(maxsize=1024)
def parse_duration(text: str) -> timedelta:
    """Parse a duration; each unit appears at most once, the largest first."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise DurationError(f"{text!r} is not {EXPECTED}")
    counts = (int(part[:-1]) if part else 0 for part in match.groups())
    return timedelta(
        seconds=sum(count * size for count, (_, size) in zip(counts, _UNITS, strict=True))
    )


def format_duration(duration: timedelta) -> str:
    """Format whole seconds in the shortest form that parses to the same duration."""
    rest = int(duration.total_seconds())
    parts = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
