"""Other people's text inside our sentences."""

LONGEST = 60


def visible(text: str) -> str:
    """Replace what is not printable: no escapes for a terminal, nothing a database cannot hold."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def shortened(text: str, most: int = LONGEST) -> str:
    """Cut a text that would drown the sentence it is quoted in."""
    return f"{text[:most]}…" if len(text) > most else text
