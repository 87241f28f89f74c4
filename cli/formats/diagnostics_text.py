"""Diagnostics of a response as text, with excerpts of the manifests on this machine."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tenantcron.cli.formats.text import render
from tenantcron.cli.terminal import Palette
from tenantcron.core.words import visible
from tenantcron.manifests.diagnostics import Diagnostic, Problem, Span
from tenantcron.manifests.language.rules import RULES
from tenantcron.service.responses.shapes import DiagnosticResponse


def diagnostic_lines(found: Sequence[DiagnosticResponse]) -> Iterator[str]:
    """Yield a line for each diagnostic."""
    for diagnostic in found:
        place = f"{diagnostic['file']}:{diagnostic['line']}:{diagnostic['column']}"
        title = f"{diagnostic['severity']}[{diagnostic['code']}]"
        yield visible(f"  {title} {place} {diagnostic['message']}")


def excerpt_lines(
    found: Sequence[DiagnosticResponse], paint: Palette, columns: int
) -> Iterator[str]:
    """Yield the diagnostics of a manifest with their excerpts, as `validate` shows them."""
    try:
        content = Path(found[0]["file"]).read_bytes() if found else b""
        diagnostics = [_diagnostic(diagnostic) for diagnostic in found]
        # Unknown to this release: a newer server has more rules.
        is_known = all(diagnostic["code"] in RULES for diagnostic in found)
    except OSError:  # the file is gone since it was read
        is_known = False
    if not is_known:
        yield from diagnostic_lines(found)
        return
    yield from (f"  {line}".rstrip() for line in render(diagnostics, paint, columns - 2, content))


def _diagnostic(found: DiagnosticResponse) -> Diagnostic:
    span = Span(found["line"], found["column"], found["end_line"], found["end_column"])
    problem = Problem(found["code"], found["message"], (found["pointer"],), span, found["hint"])
    return Diagnostic(found["file"], problem)
