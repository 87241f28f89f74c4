"""Faults, problems and diagnostics of a manifest.

A fault has a pointer into the data, a problem also a position in the text, and a diagnostic also a
file. The checks work on data and yield faults; only the loader sees text.
"""

from typing import NamedTuple

from tenantcron.manifests.language.rules import RULES, Rule, Severity

Pointer = tuple[str | int, ...]

# Problems of one code in one document that are reported; more would only clutter the output.
MAX_OF_ONE_CODE = 50
AND_MORE = "further problems of this kind are not listed"


class Span(NamedTuple):
    """A range of text: lines and columns count characters from 1, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


START = Span(1, 1, 1, 1)


class Fault(NamedTuple):
    """A mistake in data; with `at_key` the key is wrong, not its value."""

    code: str
    message: str
    pointer: Pointer
    hint: str | None = None
    at_key: bool = False


class Problem(NamedTuple):
    """A mistake in a document."""

    code: str
    message: str
    pointer: Pointer
    span: Span
    hint: str | None = None


class Diagnostic(NamedTuple):
    """A mistake in a file, as all output formats show it."""

    file: str
    problem: Problem

    @property
    def rule(self) -> Rule:
        """The rule that was broken."""
        return RULES[self.problem.code]

    @property
    def severity(self) -> Severity:
        """Whether it fails `validate`."""
        return self.rule.severity

    @property
    def sort_key(self) -> tuple[str, Span, str, str]:
        """The order in reports: by file, position and code, so runs are comparable."""
        return (self.file, self.problem.span, self.problem.code, self.problem.message)


def json_pointer(pointer: Pointer) -> str:
    """Return a pointer in the form of RFC 6901."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in pointer)
