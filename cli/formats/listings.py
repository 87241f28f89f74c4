"""Lists for programs, written item by item: JSON, YAML and CSV."""

import sys
from collections.abc import Mapping
from typing import IO, Protocol

from tenantcron.core.json_stream import JsonStream


class ListingWriter(Protocol):
    """Writes the list of a response."""

    def item(self, item: Mapping[str, object]) -> None:
        """Write an item."""

    def end(self, rest: Mapping[str, object]) -> None:
        """Finish the list, and write the other keys of the response."""


def listing_writer(output_format: str, key: str) -> ListingWriter:
    """Return the writer of a format, for the list under a key."""
    if output_format == "csv":
        return CsvListing(sys.stdout, key)
    return YamlListing(sys.stdout, key) if output_format == "yaml" else JsonListing(sys.stdout, key)


class JsonListing:
    """Writes JSON as `json.dumps(…, indent=2)` does."""

    def __init__(self, stream: IO[str], key: str) -> None:
        self._out = stream
        self._stream = JsonStream(stream)
        self._stream.open_list(key)

    def item(self, item: Mapping[str, object]) -> None:
        """Write an item."""
        self._stream.item(item)

    def end(self, rest: Mapping[str, object]) -> None:
        """Finish the list, and write the other keys of the response."""
        self._stream.close_list()
        for key, value in rest.items():
            self._stream.value(key, value)
        self._stream.close()
        self._out.write("\n")


class YamlListing:
    """Writes YAML."""

    def __init__(self, stream: IO[str], key: str) -> None:
        from tenantcron.cli.formats.yaml_text import as_yaml  # noqa: PLC0415 -- few need ruamel.yaml

        self._out = stream
        self._key = key
        self._as_yaml = as_yaml
        self._is_empty = True

    def item(self, item: Mapping[str, object]) -> None:
        """Write an item."""
        head = f"{self._key}:\n" if self._is_empty else ""
        self._is_empty = False
        self._out.write(head + self._as_yaml([item]))

    def end(self, rest: Mapping[str, object]) -> None:
        """Finish the list, and write the other keys of the response."""
        if self._is_empty:
            self._out.write(f"{self._key}: []\n")
        if rest:
            self._out.write(self._as_yaml(rest))


class CsvListing:
    """Writes CSV, which has only the list."""

    def __init__(self, stream: IO[str], key: str) -> None:
        from tenantcron.cli.formats.csv_rows import SHAPES, CsvRows  # noqa: PLC0415 -- few need it

        self._rows = CsvRows(stream, SHAPES.get(key))

    def item(self, item: Mapping[str, object]) -> None:
        """Write a row."""
        self._rows.row(item)

    def end(self, rest: Mapping[str, object]) -> None:  # noqa: ARG002 -- CSV has no place for it
        """Finish the list."""
        self._rows.end()
