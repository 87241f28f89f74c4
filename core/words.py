"""Building blocks of messages: quoted text, counts, lists and times."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tenantcron.core.credentials import LONGEST as LONGEST_CREDENTIALS
from tenantcron.core.credentials import without_credentials

LONGEST = 60


def visible(text: str) -> str:
    """Replace unprintable characters: terminal escapes, and what Postgres cannot store."""
    if text.isprintable():  # the usual case; long lists call this for every cell
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def shortened(text: str, most: int = LONGEST) -> str:
    """Truncate a long text for quoting, and hide credentials in its URLs."""
    text = without_credentials(text[: most + LONGEST_CREDENTIALS])
    return f"{text[:most]}…" if len(text) > most else text


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun in the singular or plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def allowed(most: int) -> str:
    """Return what a limit allows: `1 is allowed`, `20 are allowed`."""
    return f"{most} {'is' if most == 1 else 'are'} allowed"


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names as code, and how many more there are."""
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def unreadable(error: Exception) -> str:
    """Return why a file cannot be read, without the number and the path that Python adds."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)


def in_utc(moment: datetime) -> str:
    """Format a time for messages."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
