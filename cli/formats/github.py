"""Diagnostics as GitHub workflow commands, which GitHub shows beside the changed lines."""

from tenantcron.core.words import visible
from tenantcron.manifests.diagnostics import Diagnostic


def annotation(diagnostic: Diagnostic) -> str:
    """Return the workflow command for one diagnostic."""
    problem, span = diagnostic.problem, diagnostic.problem.span
    properties = {
        "title": f"{problem.code} {diagnostic.rule.name}",
        "file": diagnostic.file,
        "line": str(span.line),
        "endLine": str(span.end_line),
    }
    # GitHub rejects columns on annotations that span several lines.
    if span.line == span.end_line:
        properties |= {"col": str(span.column), "endColumn": str(span.end_column)}
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    text = f"{problem.message}\n{problem.hint}" if problem.hint else problem.message
    return f"::{diagnostic.severity} {listed}::{_data(text)}"


def _data(text: str) -> str:
    """Escape characters that would end the command, and other control characters."""
    shown = "".join(char if char in "\r\n" else visible(char) for char in text)
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
