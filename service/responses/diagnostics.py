"""Diagnostics as JSON; the keys are stable."""

from typing import TYPE_CHECKING

from tenantcron.manifests.diagnostics import Diagnostic, json_pointer

if TYPE_CHECKING:
    # Not imported at run time: it would slow down the start of `validate`.
    from tenantcron.service.responses.shapes import DiagnosticResponse


def as_json(diagnostic: Diagnostic) -> "DiagnosticResponse":
    """Return a diagnostic as JSON."""
    problem, span = diagnostic.problem, diagnostic.problem.span
    return {
        "code": problem.code,
        "name": diagnostic.rule.name,
        "severity": diagnostic.severity.value,
        "file": diagnostic.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "pointer": json_pointer(problem.pointer),
        "message": problem.message,
        "hint": problem.hint,
    }
