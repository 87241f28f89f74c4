"""A finding of `health`: what is wrong, with what, and what to do next."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: with what, how often, and what to do next."""

    code: str
    severity: Severity
    message: str
    hint: str
    # The first few that it concerns, and how many there are.
    subjects: tuple[str, ...] = ()
    count: int = 1
