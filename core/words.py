"""What our sentences are put together from: other people's text, numbers of things, moments."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tenantcron.core.credentials import LONGEST as LONGEST_CREDENTIALS
from tenantcron.core.credentials import without_credentials

LONGEST = 60


def visible(text: str) -> str:
    """Replace what is not printable: no escapes for a terminal, nothing a database cannot hold."""
    if text.isprintable():  # nearly always, and long lists ask for every cell
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def shortened(text: str, most: int = LONGEST) -> str:
    """Cut a text that would drown the sentence it is quoted in, and hide credentials of URLs."""
    text = without_credentials(text[: most + LONGEST_CREDENTIALS])
    return f"{text[:most]}…" if len(text) > most else text


def number_of(count: int, noun: str) -> str:
    """Write a number of things."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str], most: int) -> str:
    """Write names as code, the first of them if there are many, and how many more there are."""
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def in_utc(moment: datetime) -> str:
    """Write a moment the way that all messages do."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
