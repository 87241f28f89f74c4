"""Tasks that clients submit in a run, and the lines that they record.

The request of a task follows from its key. So a client that was killed sends the same request
again, and the checker knows what was asked for.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

# Tenants that have schedules as well, and are neither suspended nor limited.
TENANTS: Final = ("steady00", "http0")
# Seconds. Most tasks are due at once, soon, or later in the run; some long after its end.
_DELAYS: Final = (0, 0, 0, 0, 1, 2, 3, 6, 10)
FAR: Final = 3600
_FAR_SHARE: Final = 0.15
_ROLLED_BACK_SHARE: Final = 0.1
_MOST_IN_BATCH: Final = 6
_SAGAS: Final = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Note(StrEnum):
    """What a client records, with the key of the task."""

    # Before the first attempt to submit it.
    SENT = "S"
    # Before it is submitted in a transaction that is then rolled back.
    ROLLED_BACK = "R"
    # After the response; with its id.
    ACKNOWLEDGED = "A"
    # After the response to a cancel; with its id.
    CANCELLED = "X"
    # The submission was rejected, which no fault explains.
    REJECTED = "C"


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """What a client asks for."""

    key: str
    tenant: str
    saga: str
    # Seconds.
    delay: int


def planned_batch(name: str) -> list[PlannedTask]:
    """Return the tasks of a batch, which are of one tenant."""
    size = Random(f"size {name}").randint(1, _MOST_IN_BATCH)  # noqa: S311 -- reproducible
    return [planned_task(f"{name}.{place}") for place in range(size)]


def planned_task(key: str) -> PlannedTask:
    """Return the task of a key."""
    of_batch = Random(key.rpartition(".")[0])  # noqa: S311 -- reproducible
    random = Random(key)  # noqa: S311 -- as above
    delay = FAR if random.random() < _FAR_SHARE else random.choice(_DELAYS)
    return PlannedTask(key, of_batch.choice(TENANTS), f"work{random.randrange(_SAGAS)}", delay)


def is_rolled_back(batch: str) -> bool:
    """Whether the transaction of a batch is rolled back on purpose."""
    return Random(f"end {batch}").random() < _ROLLED_BACK_SHARE  # noqa: S311 -- reproducible


def record(file: Path, note: Note, key: str, task: object = "-") -> None:
    """Append a line, which one write makes atomic."""
    line = f"{note} {key} {time.time_ns() // 1000} {task}\n"
    log = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(log, line.encode())
    finally:
        os.close(log)


@dataclass(slots=True)
class TaskRecords:
    """What all clients have recorded, by key."""

    sent: set[str] = field(default_factory=set)
    rolled_back: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    # Ids, with the times of the responses.
    acknowledged: defaultdict[str, list[tuple[UUID, datetime]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    cancelled: dict[str, datetime] = field(default_factory=dict)

    @property
    def unanswered(self) -> list[str]:
        """Keys that were sent and not acknowledged."""
        return sorted(self.sent - self.acknowledged.keys() - self.rejected)


def read_records(file: Path) -> TaskRecords:
    """Read the lines of all clients."""
    records = TaskRecords()
    for note, key, at, task in _words(file):
        moment = _EPOCH + timedelta(microseconds=int(at))
        if note == Note.SENT:
            records.sent.add(key)
        elif note == Note.ROLLED_BACK:
            records.rolled_back.add(key)
        elif note == Note.REJECTED:
            records.rejected.add(key)
        elif note == Note.ACKNOWLEDGED:
            records.acknowledged[key].append((UUID(task), moment))
        else:
            records.cancelled[key] = moment
    return records


def _words(file: Path) -> Iterator[list[str]]:
    if file.exists():
        yield from (line.split() for line in file.read_text(encoding="ascii").splitlines())
