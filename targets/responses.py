"""What a service answered: what is kept of it, and what it means for the execution."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from tenantcron.core.credentials import HIDDEN, without_credentials
from tenantcron.core.egress import read_url
from tenantcron.targets.faults import storable
from tenantcron.targets.signals import Fail, Retry, Said

LONGEST_RESPONSE: Final = 2048
LONGEST_RETRY_AFTER: Final = timedelta(hours=1)

_ALSO_RETRIED = frozenset({408, 409, 425, 429})
# `Authorization: Bearer abc`, `"api_key": "abc"`, `token=abc`: with its name or its kind in front.
_CREDENTIALS = re.compile(
    r"""((?:authorization|cookie|api[-_]?key|token|secret|password|signature)["']?\s*[:=]\s*["']?)"""
    r"""(?:(?:bearer|basic|digest)\s+)?[^\s"',;&<>]+"""
    r"""|\b((?:bearer|basic)\s+)[A-Za-z0-9+/._~=-]{8,}""",
    re.IGNORECASE,
)


class RetryCall(Said, Retry):
    """The call has failed, and may succeed later."""


class FailCall(Said, Fail):
    """The call has failed, and would fail again."""


@dataclass(slots=True)
class ServiceResponse:
    """What is known of an answer so far: nothing, the status, the beginning of the body."""

    status: int | None = None
    text: str | None = None

    def keep(self, body: bytes, encoding: str, hidden: Iterable[str]) -> None:
        """Take the beginning of the body, as far as it may be shown."""
        self.text = shown(body, encoding, hidden)


@dataclass(slots=True)
class FullResponse(ServiceResponse):
    """An answer that is for us, and read as it is; None if it is packed or too long."""

    body: bytes | None = None

    def keep(self, body: bytes, encoding: str, hidden: Iterable[str]) -> None:  # noqa: ARG002 -- nobody is shown it
        """Take the body."""
        is_whole = encoding in ("", "identity") and len(body) < LONGEST_RESPONSE
        self.body = body if is_whole else None


def judge(status: int, headers: Mapping[str, str], now: datetime) -> None:
    """Return if a status means success, else raise what becomes of the execution."""
    if 200 <= status < 300:
        return
    said = f"the service answered {status}{_phrase(status)}"
    if 300 <= status < 400:
        raise FailCall(f"{said}{_whereto(headers)}, and redirects are not followed")
    if status >= 500 or status in _ALSO_RETRIED:
        raise RetryCall(said, after=retry_after(headers, now))
    raise FailCall(said)


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return how long the service wants to be left alone, an hour at most; None: it is not said.

    A date counts from the service's own clock if it tells it.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        wait = timedelta(seconds=min(int(text[:9]), LONGEST_RETRY_AFTER.total_seconds()))
    elif (moment := _date(text)) is not None:
        wait = moment - (_date(headers.get("date", "")) or now)
    else:
        return None
    return min(wait, LONGEST_RETRY_AFTER) if wait > timedelta(0) else None


def shown(body: bytes, encoding: str, hidden: Iterable[str]) -> str:
    """Return the beginning of a body as text that may be kept."""
    if encoding not in ("", "identity"):
        # Unpacking it could fill the memory.
        return f"(not shown: it is packed as {storable(encoding[:40])})"
    text = redacted(storable(body.decode("utf-8", "replace")), hidden)
    return text.encode()[:LONGEST_RESPONSE].decode(errors="ignore")


def redacted(text: str, hidden: Iterable[str]) -> str:
    """Take out what proves who we are, and what looks as if it did."""
    text = without_credentials(text)
    for secret in sorted(filter(None, hidden), key=len, reverse=True):
        text = text.replace(secret, HIDDEN).replace(json.dumps(secret)[1:-1], HIDDEN)
    return _CREDENTIALS.sub(lambda match: f"{match[1] or match[2]}{HIDDEN}", text)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _whereto(headers: Mapping[str, str]) -> str:
    """Say where a redirect leads, as far as that may be shown."""
    url = read_url(headers.get("location", ""))
    return "" if url is None else f" to {url.place[:200]}"


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
