"""Host names in requests and settings."""

import re
from collections.abc import Iterable

from tenantcron.core.egress import is_listed

EXPECTED = "a host name such as cron.example.com, or *.example.com for the names below it"

_NAME = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*"
_PATTERN = re.compile(rf"(?:\*\.)?{_NAME}|\[[0-9a-f:.]+\]", re.IGNORECASE | re.ASCII)
_HEADER = re.compile(
    rf"(?P<host>{_NAME}|\[[0-9a-f:.]+\])\.?(?::[0-9]{{0,5}})?", re.IGNORECASE | re.ASCII
)


def host_of(header: str) -> str | None:
    """Return the host of a `Host` header in lower case, without the port; None if it has none."""
    match = _HEADER.fullmatch(header)
    return None if match is None else match["host"].lower()


def is_host_pattern(text: str) -> bool:
    """Whether a text names a host, or with `*.` all hosts below one."""
    return _PATTERN.fullmatch(text) is not None


def is_trusted(host: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches a host."""
    return is_listed("https", host, patterns)
