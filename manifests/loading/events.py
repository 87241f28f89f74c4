"""The one stream that YAML and JSON are both read as, and how a reader says that it is stuck."""

from typing import Literal, NamedTuple

Kind = Literal["scalar", "alias", "mapping", "sequence", "end", "another"]


class Event(NamedTuple):
    """One step of reading; places are character offsets, a node's own include anchor and tag.

    An "end" closes the innermost open mapping or sequence, and its `end` is where that one ends.
    Inside a mapping, keys and values alternate. "another" is where a second document begins.
    """

    kind: Kind
    start: int
    end: int
    text: str = ""  # what a scalar says, or the name that an alias refers to
    plain: bool = False  # a scalar without quotes, so that it may be a number
    anchor: str | None = None
    tagged: bool = False


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
