"""Sizes of memory in the form `512MiB`, `2GiB`."""

import re

from tenantcron.core.errors import TenantcronError

EXPECTED = "a size such as 512MiB or 2GiB"
SMALLEST = 16 * 1024**2

PATTERN = "([0-9]{1,12})(B|KiB|MiB|GiB)"

_SIZE = re.compile(PATTERN)
_UNITS = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024, "B": 1}


class SizeError(TenantcronError):
    """The text is not a size."""


def parse_size(text: str) -> int:
    """Parse a size; return it in bytes."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise SizeError(f"{text!r} is not {EXPECTED}")
    return int(match[1]) * _UNITS[match[2]]


def format_size(size: int) -> str:
    """Format bytes in the largest unit that is exact."""
    unit, factor = next((unit, factor) for unit, factor in _UNITS.items() if size % factor == 0)
    return f"{size // factor} {unit}"
