"""The events that the YAML and JSON readers yield, and the error that stops them."""

from typing import Literal, Protocol

Kind = Literal["scalar", "alias", "mapping", "sequence", "end", "another"]


# An event: its kind, its start and end, the text of a scalar (or the name that an alias refers to),
# whether a scalar is plain (without quotes, so it may be a number), the anchor's name, and whether
# there is a tag.
#
# Positions are character offsets; those of a node include its anchor and tag. An "end" closes the
# innermost open mapping or sequence and has its end. Inside a mapping, keys and values alternate.
# "another" is the beginning of a second document.
#
# A plain tuple, because a manifest has a thousand of them and a class would triple the cost.
Event = tuple[Kind, int, int, str, bool, str | None, bool]


class TextMark(Protocol):
    """A position in ruamel.yaml's events and errors."""

    index: int


class Unreadable(Exception):  # noqa: N818 - an outcome of reading that only the loader sees
    """A syntax error at a position, after which nothing can be read."""

    def __init__(
        self, message: str, start: int, end: int, *, hint: str | None = None, code: str = "TC003"
    ) -> None:
        """Keep the parts of a problem."""
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint
        self.code = code
