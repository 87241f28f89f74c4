"""What is said about a manifest.

A fault is known by its pointer into the data, a problem also by its place in the text, a diagnostic
also by its file. The checks work on data and yield faults; only the loader sees text.
"""

from typing import NamedTuple

from tenantcron.manifests.language.rules import RULES, Rule, Severity

Pointer = tuple[str | int, ...]

# Of one kind of mistake in one document so many are told; nobody reads thousands.
MAX_OF_ONE_CODE = 50
AND_MORE = "more of the same kind from here on are not listed"


class Span(NamedTuple):
    """A stretch of text: lines and columns count characters from 1, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


START = Span(1, 1, 1, 1)


class Fault(NamedTuple):
    """One mistake in data; `at_key` when the key itself is wrong rather than its value."""

    code: str
    message: str
    pointer: Pointer
    hint: str | None = None
    at_key: bool = False


class Problem(NamedTuple):
    """One mistake in one document."""

    code: str
    message: str
    pointer: Pointer
    span: Span
    hint: str | None = None


class Diagnostic(NamedTuple):
    """One mistake in one file, as every output format shows it."""

    file: str
    problem: Problem

    @property
    def rule(self) -> Rule:
        """The rule that was broken."""
        return RULES[self.problem.code]

    @property
    def severity(self) -> Severity:
        """Whether it stops a commit."""
        return self.rule.severity

    @property
    def sort_key(self) -> tuple[str, Span, str, str]:
        """Where it stands in the report: by file, by place, then by code, so that runs compare."""
        return (self.file, self.problem.span, self.problem.code, self.problem.message)


def json_pointer(pointer: Pointer) -> str:
    """Write a pointer as RFC 6901 has it."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in pointer)
