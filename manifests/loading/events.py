"""The one stream that YAML and JSON are both read as, and how a reader says that it is stuck."""

from typing import Literal

Kind = Literal["scalar", "alias", "mapping", "sequence", "end", "another"]


# One step of reading: its kind, where it starts and ends, what a scalar says (or the name that an
# alias refers to), whether a scalar is plain (without quotes, so that it may be a number), the
# anchor's name, and whether there is a tag.
#
# Places are character offsets, a node's own include anchor and tag. An "end" closes the innermost
# open mapping or sequence, and its own end is where that one ends. Inside a mapping, keys and
# values alternate. "another" is where a second document begins.
#
# A bare tuple, because a manifest has a thousand of them and a class would triple their price.
Event = tuple[Kind, int, int, str, bool, str | None, bool]


class Unreadable(Exception):  # noqa: N818 - an outcome of reading that only the loader sees
    """The text breaks the syntax at this place, and nothing behind it can be read."""

    def __init__(
        self, message: str, start: int, end: int, *, hint: str | None = None, code: str = "TC003"
    ) -> None:
        """Keep what a problem needs."""
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint
        self.code = code
