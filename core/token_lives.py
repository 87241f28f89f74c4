"""How long an API token lives."""

from datetime import timedelta
from typing import Final

from tenantcron.core.durations import parse_duration
from tenantcron.core.errors import UsageError

DEFAULT_LIFE: Final = timedelta(days=90)
LONGEST_LIFE: Final = timedelta(days=366)


def token_life(text: str, place: str) -> timedelta:
    """Parse how long a token lives; `place` names the option or field."""
    span = parse_duration(text)
    if not timedelta(0) < span <= LONGEST_LIFE:
        raise UsageError(f"{place} {text!r} is not a duration of at most {LONGEST_LIFE.days} days")
    return span
