"""Read points in time: ISO 8601, to the minute or finer, with or without offset."""

import re
from datetime import UTC, datetime

from tenantcron.core.errors import TenantcronError

# Narrower than what datetime reads: no week dates, no basic format, no 24:00.
_FORM = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)


class InstantError(TenantcronError):
    """The text is not a point in time; the message continues after the quoted text."""


def read_instant(text: str) -> datetime:
    """Return the instant in UTC if the text has an offset, otherwise the wall-clock value."""
    if _FORM.fullmatch(text) is None:
        raise InstantError("is not a time such as 2026-12-01T09:00:00")
    try:
        time = datetime.fromisoformat(text)
        return time if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InstantError("is not a valid date and time") from None
