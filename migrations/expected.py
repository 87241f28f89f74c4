"""The contents of a schema after all migrations: the lines of `objects.txt` beside each history.

`make generated` writes the two files from a migrated database, and a test compares them with one.
They show in a review what a migration changes.
"""

from functools import cache
from pathlib import Path
from typing import Final, Literal

FILE_NAME: Final = "objects.txt"


@cache
def expected_objects(kind: Literal["control", "tenant"]) -> tuple[str, ...]:
    """Return the lines that a schema of that kind must have; it may have more."""
    file = Path(__file__).parent / kind / FILE_NAME
    return tuple(file.read_text(encoding="utf-8").splitlines())
