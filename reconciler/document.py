"""The document of a manifest version: all schedules of a tenant in stored form."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import overload

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.schedules.definition import Definition, read_definition


@dataclass(frozen=True)
class Stored(Sequence[Definition]):
    """Definitions in the database's form of JSON, parsed when they are accessed.

    Equal texts are equal definitions. Different texts may be equal as well: `1` and `1.0`.
    """

    text: str
    length: int

    @cached_property
    def _definitions(self) -> tuple[Definition, ...]:
        return definitions({"schedules": json.loads(self.text)})

    def __len__(self) -> int:
        """Return the number of definitions without parsing them."""
        return self.length

    @overload
    def __getitem__(self, index: int) -> Definition: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Definition, ...]: ...
    def __getitem__(self, index: int | slice) -> Definition | tuple[Definition, ...]:
        """Return a definition or a slice."""
        return self._definitions[index]


# The content of a manifest version: {"schedules": [the columns of each definition]}.
Document = JsonObject


def document(definitions: Iterable[Definition]) -> Document:
    """Return the document of a manifest version: its schedules, ordered by name."""
    ordered = sorted(definitions, key=lambda definition: definition.schedule_name)
    return {"schedules": [definition.as_json() for definition in ordered]}


def stored(of: Document) -> Stored:
    """Return the schedules of a document as JSON, which is cheap to pass on."""
    schedules = definitions(of)
    return Stored(json.dumps([schedule.as_json() for schedule in schedules]), len(schedules))


def definitions(of: Document) -> tuple[Definition, ...]:
    """Parse a document; raise ValueError if it is malformed."""
    match of:
        case {"schedules": list(schedules)}:
            return tuple(map(read_definition, schedules))
    raise ValueError("a document has a list of schedules")


def checksum(of: Document) -> str:
    """Return the checksum of a document; equal content has an equal checksum."""
    return sha256(canonical(of)).hexdigest()


def canonical(value: JsonValue) -> bytes:
    """Return the canonical form of a value, from which checksums are computed."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode()
