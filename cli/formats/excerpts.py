"""The text of a manifest for excerpts, with secrets masked."""

from pathlib import Path

from tenantcron.core.credentials import masked
from tenantcron.manifests.diagnostics import Diagnostic, Span

_NEAR = 5_000
_HIDDEN = "TC407"


class SourceText:
    """The lines of a manifest. A value that one diagnostic reports as a secret is hidden in all."""

    __slots__ = ("_lines", "_secrets")

    def __init__(self, diagnostics: list[Diagnostic], content: bytes | None = None) -> None:
        """Split the content into lines; without it, the file of the diagnostics is read."""
        content = Path(diagnostics[0].file).read_bytes() if content is None else content
        text = content.decode(errors="replace").removeprefix("\ufeff")
        # Not splitlines(): it also splits at characters that YAML and JSON keep inside a line.
        self._lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._secrets = [
            found.problem.span for found in diagnostics if found.problem.code == _HIDDEN
        ]

    def __len__(self) -> int:
        return len(self._lines)

    def length(self, number: int) -> int:
        """Return the number of characters of a line; lines count from 1."""
        return len(self._lines[number - 1])

    def line(self, number: int, column: int) -> str:
        """Return a line, with credentials masked near the column: it can be a megabyte long."""
        line = self._without_secrets(number)
        begin, end = max(0, column - _NEAR), column + _NEAR
        return line[:begin] + masked(line[begin:end]) + line[end:]

    def _without_secrets(self, number: int) -> str:
        line = self._lines[number - 1]
        for span in self._secrets:
            if span.line <= number <= span.end_line:
                begin, end = columns_of(span, number, line)
                line = line[:begin] + "*" * (end - begin) + line[end:]
        return line


def columns_of(span: Span, number: int, line: str) -> tuple[int, int]:
    """Return the part of a line that a span covers, as indexes."""
    begin = span.column - 1 if number == span.line else 0
    return begin, span.end_column - 1 if number == span.end_line else len(line)
