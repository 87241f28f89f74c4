"""Decode the bytes of a file, and convert offsets to lines and columns."""

import re
from array import array
from bisect import bisect_right

from tenantcron.manifests.diagnostics import START, Problem, Span

MAX_BYTES = 1_048_576

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
# The longer marks come first: UTF-32's begins with UTF-16's.
_FOREIGN_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


class Source:
    """A text whose offsets can be converted to lines and columns, as editors count them."""

    __slots__ = ("_starts", "text")

    def __init__(self, text: str) -> None:
        """Find the start of each line."""
        self.text = text
        # An array, because a file of only line breaks has a million of them.
        self._starts = array("I", [0])
        self._starts.extend(match.end() for match in _LINE_BREAK.finditer(text))

    def line(self, offset: int) -> int:
        """Return the line number of an offset, from 1."""
        return bisect_right(self._starts, offset)

    def span(self, start: int, end: int) -> Span:
        """Return the range between two offsets, within the text."""
        size = len(self.text)
        start, end = min(start, size), min(max(start, end), size)
        line, end_line = self.line(start), self.line(end)
        return Span(
            line,
            start - self._starts[line - 1] + 1,
            end_line,
            end - self._starts[end_line - 1] + 1,
        )


def decode(content: bytes) -> Source | Problem:
    """Decode UTF-8, or return the problem."""
    if len(content) > MAX_BYTES:
        return too_large(len(content))
    for mark, name in _FOREIGN_MARKS:
        if content.startswith(mark):
            return Problem("TC001", f"the file is {name}", (), START, "save it as UTF-8")
    try:
        # Editors do not show the mark, so it takes no column.
        return Source(content.decode("utf-8").removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        return _not_utf8(content, error.start)


def too_large(size: int) -> Problem:
    """Return the problem of a file with too many bytes."""
    message = f"the file has {size:,} bytes; the limit is {MAX_BYTES:,}"
    return Problem("TC002", message, (), START, "move generated data out of the manifest")


def _not_utf8(content: bytes, offset: int) -> Problem:
    """Return the problem of the first byte that is not UTF-8."""
    before = content[:offset].decode("utf-8").removeprefix("\ufeff")
    span = Source(before + "?").span(len(before), len(before) + 1)
    message = f"byte 0x{content[offset]:02x} is not UTF-8"
    return Problem("TC001", message, (), span, "save the file as UTF-8")
