"""What a document is made of: plain JSON data, and beside it where each piece of it is written."""

from typing import NamedTuple

from tenantcron.core.values import JsonValue


class Key(NamedTuple):
    """A key as it is read and where it is written; the text is None if no text stands for it."""

    text: str | None
    start: int
    end: int
    merge: bool = False


class Node:
    """A value and where it is written; how many values and bytes it holds and how deep.

    All three include what aliases stand for.
    """

    __slots__ = ("bytes", "end", "entries", "height", "items", "size", "start", "value")

    def __init__(self, value: JsonValue, start: int, end: int) -> None:
        """Begin with a scalar; who reads a list or a mapping adds what is in it."""
        self.value = value
        self.start = start
        self.end = end
        self.size = 1
        self.bytes = bytes_of(value) if isinstance(value, str) else 0
        self.height = 0
        self.items: list[Node] | None = None
        self.entries: dict[str, tuple[Key, Node]] | None = None

    def child(self, part: str | int) -> "Node | None":
        """Return the node one step down, if there is one."""
        if isinstance(part, str):
            entry = self.entries.get(part) if self.entries else None
            return entry[1] if entry else None
        return self.items[part] if self.items and 0 <= part < len(self.items) else None

    def key_of(self, part: str | int) -> Key | None:
        """Return the key under which the node one step down stands, if it stands under a key."""
        if not isinstance(part, str) or not self.entries:
            return None
        entry = self.entries.get(part)
        return entry[0] if entry else None


def bytes_of(text: str) -> int:
    """Return how long a text is in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())
