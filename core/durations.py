"""Durations as people write them: `90s`, `15m`, `1h30m`, `7d`."""

import re
from datetime import timedelta

from tenantcron.core.errors import TenantcronError

PATTERN = r"(?:[0-9]{1,9}[dhms]){1,4}"
EXPECTED = "a duration such as 90s, 15m, 1h30m or 7d"

_DURATION = re.compile(
    r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?", re.ASCII
)
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_LONGEST = timedelta(days=36_500)


class DurationError(TenantcronError):
    """The text is not a duration."""


def parse_duration(text: str) -> timedelta:
    """Read a duration; the units come once each, from the largest to the smallest."""
    match = _DURATION.fullmatch(text) if text else None
    if match is None:
        raise DurationError(f"{text!r} is not {EXPECTED}")
    seconds = sum(
        int(count or 0) * size for count, (_, size) in zip(match.groups(), _UNITS, strict=True)
    )
    if seconds > _LONGEST.total_seconds():
        raise DurationError(f"{text!r} is longer than a hundred years")
    return timedelta(seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """Write whole seconds the shortest way that reads back as the same duration."""
    rest = int(duration.total_seconds())
    parts = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
