"""Mappings and sequences that are being read."""

from tenantcron.core.values import JsonValue
from tenantcron.manifests.loading.nodes import Key, Node, bytes_of


class OpenSequence:
    """A sequence whose end has not been read yet."""

    __slots__ = ("_items", "_values", "anchor", "awaits_key", "node")

    def __init__(self, start: int, anchor: str | None) -> None:
        """Start empty."""
        self.anchor = anchor
        self.awaits_key = False
        self._items: list[Node] = []
        self._values: list[JsonValue] = []
        self.node = Node(self._values, start, start)
        self.node.height = 1
        self.node.items = self._items

    @property
    def part(self) -> int:
        """The index of the item that is being read."""
        return len(self._items)

    def add(self, child: Node) -> None:
        """Append an item."""
        self._items.append(child)
        self._values.append(child.value)
        _grow(self.node, child)


class OpenMapping:
    """A mapping whose end has not been read yet; it expects a key and then its value."""

    __slots__ = ("_entries", "_key", "_values", "anchor", "awaits_key", "merges", "node")

    def __init__(self, start: int, anchor: str | None) -> None:
        """Start empty."""
        self.anchor = anchor
        self.awaits_key = True
        self.merges: list[Node] = []
        self._key: Key | None = None
        self._entries: dict[str, tuple[Key, Node]] = {}
        self._values: dict[str, JsonValue] = {}
        self.node = Node(self._values, start, start)
        self.node.height = 1
        self.node.entries = self._entries

    @property
    def part(self) -> str | None:
        """The key whose value is being read."""
        return self._key.text if self._key else None

    def earlier(self, text: str) -> Key | None:
        """Return the key that already has this text, if there is one."""
        entry = self._entries.get(text)
        return entry[0] if entry else None

    def begin(self, key: Key) -> None:
        """Set the key of the next value."""
        self._key = key
        self.awaits_key = False

    def add(self, child: Node) -> None:
        """Add the value of the current key; the first of two equal keys wins."""
        key, self._key = self._key, None
        self.awaits_key = True
        if key is None or key.text is None:
            return
        if key.merge:
            self.merges.append(child)
        else:
            self._put(key.text, key, child)

    def merge(self) -> bool:
        """Add the entries of merge keys, own keys first; False if one is not a mapping."""
        lists = [[merged] if merged.items is None else merged.items for merged in self.merges]
        sources = [source for items in lists for source in items]
        for source in sources:
            for text, (key, child) in (source.entries or {}).items():
                self._put(text, key, child)
        return all(source.entries is not None for source in sources)

    def _put(self, text: str, key: Key, child: Node) -> None:
        """Add an entry unless its key exists."""
        if text not in self._entries:
            self._entries[text] = (key, child)
            self._values[text] = child.value
            self.node.bytes += bytes_of(text)
            _grow(self.node, child)


def _grow(parent: Node, child: Node) -> None:
    """Add the child to the size, the bytes and the height of its parent."""
    parent.size += child.size
    parent.bytes += child.bytes
    if child.height >= parent.height:
        parent.height = child.height + 1
