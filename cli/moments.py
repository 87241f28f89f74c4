"""Times in arguments and output of the command line."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tenantcron.core.errors import UsageError


def moment(text: str, zone: ZoneInfo) -> datetime:
    """Parse an ISO 8601 time; a time without an offset is in `zone`."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is not a time such as 2026-12-01T09:00:00Z") from error


def in_words(ahead: timedelta) -> str:
    """Return the distance to a future time in its two largest units: `in 3 h 20 min`."""
    seconds = int(ahead.total_seconds())
    if seconds < 60:
        return f"in {seconds} s"
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return f"in {' '.join(parts[:2])}"
