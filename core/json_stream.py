"""Write JSON incrementally; the output equals `json.dumps(…, indent=2)`."""

import json
from typing import IO


class JsonStream:
    """Writes one object; its lists may be too long to keep in memory."""

    def __init__(self, stream: IO[str], margin: str = "") -> None:
        self._stream = stream
        # The indentation of each line after the first, for an object inside another.
        self._margin = margin
        self._keys = 0
        self._items = 0

    def value(self, key: str, value: object) -> None:
        """Write a key with its value."""
        self._key(key)
        self._stream.write(_indented(value, f"{self._margin}  "))

    def open_list(self, key: str) -> None:
        """Write a key and begin its list."""
        self._key(key)
        self._stream.write("[")
        self._items = 0

    def item(self, value: object) -> None:
        """Write the next item of the list."""
        margin = f"{self._margin}    "
        self._stream.write(f"{',' if self._items else ''}\n{margin}{_indented(value, margin)}")
        self._items += 1

    def close_list(self) -> None:
        """End the list."""
        self._stream.write(f"\n{self._margin}  ]" if self._items else "]")

    def close(self) -> None:
        """End the object, which has at least one key."""
        self._stream.write(f"\n{self._margin}}}")

    def _key(self, key: str) -> None:
        self._stream.write(f"{',' if self._keys else '{'}\n{self._margin}  {json.dumps(key)}: ")
        self._keys += 1


def _indented(value: object, margin: str) -> str:
    # A line break inside a string is escaped as \n, so every real one belongs to the layout.
    return json.dumps(value, indent=2).replace("\n", f"\n{margin}")
