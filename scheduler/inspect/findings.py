"""A finding of `health`: the problem, what it affects, and the fix."""

from dataclasses import dataclass
from enum import StrEnum


class FindingSeverity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, what it affects, and the fix."""

    code: str
    severity: FindingSeverity
    message: str
    hint: str
    # The first few subjects that it affects, and the number of all of them.
    subjects: tuple[str, ...] = ()
    count: int = 1
