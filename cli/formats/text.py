"""Diagnostics as text: the source line with a marker under the span."""

import unicodedata
from collections.abc import Iterator
from itertools import accumulate, takewhile

from tenantcron.cli.formats.excerpts import SourceText
from tenantcron.cli.terminal import Palette
from tenantcron.core.words import number_of, visible
from tenantcron.manifests.diagnostics import Diagnostic, Span

_TAB = "    "


def render(
    diagnostics: list[Diagnostic], paint: Palette, columns: int, content: bytes | None = None
) -> Iterator[str]:
    """Yield the lines for the diagnostics of a file; without its content, the file is read."""
    if not diagnostics:
        return
    source = SourceText(diagnostics, content)
    for diagnostic in diagnostics:
        yield from _head(diagnostic, paint)
        span = diagnostic.problem.span
        margin = " " * len(str(span.line))
        if span.line <= len(source):
            line = source.line(span.line, span.column)
            shown, marker = _excerpt(line, span, columns - len(margin) - 3)
            yield paint("place", f"{margin} |")
            yield f"{paint('place', f'{span.line} |')} {shown}"
            yield f"{paint('place', f'{margin} |')} {paint(diagnostic.severity, marker)}"
        if diagnostic.problem.hint:
            yield f"{paint('place', f'{margin} =')} help: {visible(diagnostic.problem.hint)}"
        yield ""


def summary(files: int, errors: int, warnings: int, paint: Palette) -> str:
    """Return the closing line."""
    checked = f"{number_of(files, 'manifest')} checked"
    if not errors and not warnings:
        return f"{checked}: all good"
    style = "error" if errors else "warning"
    found = f"{number_of(errors, 'error')}, {number_of(warnings, 'warning')}"
    return f"{checked}: {paint(style, found)}"


def _head(diagnostic: Diagnostic, paint: Palette) -> Iterator[str]:
    problem, span = diagnostic.problem, diagnostic.problem.span
    title = paint(diagnostic.severity, f"{diagnostic.severity}[{problem.code}]")
    yield f"{title} {paint('strong', visible(problem.message))}"
    place = f"{visible(diagnostic.file)}:{span.line}:{span.column}"
    margin = " " * len(str(span.line))
    yield f"{margin}{paint('place', '-->')} {place} ({diagnostic.rule.name})"


def _excerpt(line: str, span: Span, columns: int) -> tuple[str, str]:
    """Return the part of a line around the span that fits, and its marker."""
    last = span.end_column - 1 if span.end_line == span.line else len(line)
    begin = span.column - 1
    # A line can be a megabyte long, so read no more of it than fits.
    before = _cells(line[max(0, begin - columns) : begin])
    marked = _cells(line[begin : min(last, begin + columns)])
    after = _cells(line[last : last + columns])
    if _display_width(before + marked + after) > columns:
        before = _cut(before[::-1], columns // 2)[::-1]
    indent = _display_width(before)
    marker = "^" * max(1, min(_display_width(marked), columns - indent))
    return _cut(before + marked + after, columns), " " * indent + marker


def _cut(text: str, columns: int) -> str:
    """Truncate the text to a number of columns."""
    widths = accumulate(map(_char_width, text))
    return text[: sum(1 for _ in takewhile(lambda width: width <= columns, widths))]


def _cells(text: str) -> str:
    return visible(text.replace("\t", _TAB))


def _display_width(text: str) -> int:
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    """Count terminal cells: East Asian wide characters and emoji take two, accents none."""
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
