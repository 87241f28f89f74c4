"""Responses of services: what is stored, and what they mean for the execution."""

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
from tenantcron.targets.signals import Fail, Retry, WithoutTraceback

LONGEST_RESPONSE: Final = 2048
LONGEST_RETRY_AFTER: Final = timedelta(hours=1)

_ALSO_RETRIED = frozenset({408, 409, 425, 429})
# `Authorization: Bearer abc`, `"api_key": "abc"`, `token=abc`: after a name or a scheme.
_CREDENTIALS = re.compile(
    r"""((?:authorization|cookie|api[-_]?key|token|secret|password|signature)["']?\s*[:=]\s*["']?)"""
    r"""(?:(?:bearer|basic|digest)\s+)?[^\s"',;&<>]+"""
    r"""|\b((?:bearer|basic)\s+)[A-Za-z0-9+/._~=-]{8,}""",
    re.IGNORECASE,
)


class RetryCall(WithoutTraceback, Retry):
    """The call failed, and a retry may succeed."""


class FailCall(WithoutTraceback, Fail):
    """The call failed, and a retry would fail again."""


@dataclass(slots=True)
class ServiceResponse:
    """The received part of a response: nothing, the status, or also the start of the body."""

    status: int | None = None
    text: str | None = None

    def keep(self, body: bytes, encoding: str, hidden: Iterable[str]) -> None:
        """Store the start of the body with secrets redacted."""
        self.text = shown(body, encoding, hidden)


@dataclass(slots=True)
class FullResponse(ServiceResponse):
    """A response that we parse ourselves; no body if it is compressed or too long."""

    body: bytes | None = None

    def keep(self, body: bytes, encoding: str, hidden: Iterable[str]) -> None:  # noqa: ARG002 -- it is not shown
        """Store the body."""
        is_complete = encoding in ("", "identity") and len(body) < LONGEST_RESPONSE
        self.body = body if is_complete else None


def check_status(status: int, headers: Mapping[str, str], now: datetime) -> None:
    """Return if the status means success, else raise a RetryCall or a FailCall."""
    if 200 <= status < 300:
        return
    text = f"the service answered {status}{_phrase(status)}"
    if 300 <= status < 400:
        raise FailCall(f"{text}{_location(headers)}, and redirects are not followed")
    if status >= 500 or status in _ALSO_RETRIED:
        raise RetryCall(text, after=retry_after(headers, now))
    raise FailCall(text)


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return the delay that the service requests, at most an hour; None if there is no header.

    A date is relative to the `Date` header of the response, if it has one.
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
    """Return the start of a body as text that may be stored."""
    if encoding not in ("", "identity"):
        # Decompressing it could exhaust the memory.
        return f"(not shown: the encoding is {storable(encoding[:40])})"
    text = redacted(storable(body.decode("utf-8", "replace")), hidden)
    return text.encode()[:LONGEST_RESPONSE].decode(errors="ignore")


def redacted(text: str, hidden: Iterable[str]) -> str:
    """Redact our credentials, and everything that looks like credentials."""
    text = without_credentials(text)
    for secret in sorted(filter(None, hidden), key=len, reverse=True):
        text = text.replace(secret, HIDDEN).replace(json.dumps(secret)[1:-1], HIDDEN)
    return _CREDENTIALS.sub(lambda match: f"{match[1] or match[2]}{HIDDEN}", text)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _location(headers: Mapping[str, str]) -> str:
    """Return the target of a redirect, without its query."""
    url = read_url(headers.get("location", ""))
    return "" if url is None else f" to {url.place[:200]}"


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
