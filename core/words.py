"""What our sentences are put together from: other people's text, numbers of things, moments."""

from datetime import UTC, datetime

LONGEST = 60


def visible(text: str) -> str:
    """Replace what is not printable: no escapes for a terminal, nothing a database cannot hold."""
    if text.isprintable():  # nearly always, and long lists ask for every cell
        return text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def shortened(text: str, most: int = LONGEST) -> str:
    """Cut a text that would drown the sentence it is quoted in."""
    return f"{text[:most]}…" if len(text) > most else text


def number_of(count: int, noun: str) -> str:
    """Write a number of things."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def in_utc(moment: datetime) -> str:
    """Write a moment the way that all messages do."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
