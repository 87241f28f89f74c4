"""Diagnostics for programs; the keys are stable."""

from typing import TYPE_CHECKING

from tenantcron.manifests.diagnostics import Diagnostic, json_pointer

if TYPE_CHECKING:
    # `validate` is in a hurry, and does not pay for what describes the API.
    from tenantcron.service.responses.shapes import DiagnosticResponse


def as_json(diagnostic: Diagnostic) -> "DiagnosticResponse":
    """Return one diagnostic as JSON has it."""
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
