"""The meaning of an HTTP status for the execution."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from tenantcron.core.egress import read_url
from tenantcron.targets.responses import FailCall, RetryCall

LONGEST_RETRY_AFTER: Final = timedelta(hours=1)

_ALSO_RETRIED = frozenset({408, 409, 425, 429})


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
