"""Other people's text inside our sentences."""

LONGEST = 60


def shortened(text: str) -> str:
    """Cut a text that would drown the sentence it is quoted in."""
    return f"{text[:LONGEST]}…" if len(text) > LONGEST else text
