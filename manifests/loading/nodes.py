"""The nodes of a document: plain JSON data with the position of each value."""

from typing import NamedTuple

from tenantcron.core.values import JsonValue


class Key(NamedTuple):
    """A key and its position; the text is None if the key is not a string."""

    text: str | None
    start: int
    end: int
    merge: bool = False


class Node:
    """A value with its position, its number of values and bytes, and its depth.

    All three include the values of aliases.
    """

    __slots__ = ("bytes", "end", "entries", "height", "items", "size", "start", "value")

    def __init__(self, value: JsonValue, start: int, end: int) -> None:
        """Start as a scalar; `OpenSequence` and `OpenMapping` add entries."""
        self.value = value
        self.start = start
        self.end = end
        self.size = 1
        self.bytes = bytes_of(value) if isinstance(value, str) else 0
        self.height = 0
        self.items: list[Node] | None = None
        self.entries: dict[str, tuple[Key, Node]] | None = None

    def child(self, part: str | int) -> "Node | None":
        """Return the child node, if it exists."""
        if isinstance(part, str):
            entry = self.entries.get(part) if self.entries else None
            return entry[1] if entry else None
        return self.items[part] if self.items and 0 <= part < len(self.items) else None

    def key_of(self, part: str | int) -> Key | None:
        """Return the key of a child node, if it has one."""
        if not isinstance(part, str) or not self.entries:
            return None
        entry = self.entries.get(part)
        return entry[0] if entry else None


def bytes_of(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())
