"""Valid values of a document with their pointers."""

from collections.abc import Iterator
from datetime import timedelta

from tenantcron.core.durations import parse_duration
from tenantcron.core.values import JsonValue
from tenantcron.manifests.diagnostics import Pointer


class View:
    """A value and its pointer.

    A value that failed the structure check reads as absent, so later checks neither fail on it nor
    report it again, and still see everything else.
    """

    __slots__ = ("faulty", "pointer", "value")

    def __init__(self, value: JsonValue, pointer: Pointer, faulty: frozenset[Pointer]) -> None:
        self.value = value
        self.pointer = pointer
        self.faulty = faulty

    def get(self, key: str) -> "View | None":
        """Return the entry of a mapping, None if it is absent or faulty."""
        if not isinstance(self.value, dict) or key not in self.value:
            return None
        pointer = (*self.pointer, key)
        return None if pointer in self.faulty else View(self.value[key], pointer, self.faulty)

    def has(self, key: str) -> bool:
        """Whether a mapping has a valid entry; cheaper than `get`."""
        return self._plain(key) is not None

    def entries(self) -> Iterator[tuple[str, "View"]]:
        """Yield the valid entries of a mapping."""
        for key in self.value if isinstance(self.value, dict) else ():
            entry = self.get(key)
            if entry is not None:
                yield key, entry

    def items(self) -> Iterator["View"]:
        """Yield the valid entries of a list."""
        for index, item in enumerate(self.value if isinstance(self.value, list) else ()):
            pointer = (*self.pointer, index)
            if pointer not in self.faulty:
                yield View(item, pointer, self.faulty)

    def _plain(self, key: str) -> JsonValue:
        """Return the value of an entry, None if it is absent or faulty; cheaper than `get`."""
        if not isinstance(self.value, dict) or (
            self.faulty and (*self.pointer, key) in self.faulty
        ):
            return None
        return self.value.get(key)

    def text(self, key: str) -> str | None:
        """Return the entry if it is a string."""
        entry = self._plain(key)
        return entry if isinstance(entry, str) else None

    def number(self, key: str) -> int | None:
        """Return the entry if it is a whole number."""
        entry = self._plain(key)
        return int(entry) if isinstance(entry, int | float) else None

    def duration(self, key: str) -> timedelta | None:
        """Return the entry if it is a duration."""
        text = self.text(key)
        return None if text is None else parse_duration(text)
