"""Diagnostics as SARIF 2.1.0, for code scanning."""

import os
from urllib.parse import quote

from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.language.rules import RULES, Rule

Sarif = dict[str, "str | int | list[Sarif] | Sarif"]


def sarif_log(diagnostics: list[Diagnostic]) -> Sarif:
    """Return the content of a SARIF file."""
    driver: Sarif = {"name": "tenantcron", "rules": [_rule(rule) for rule in RULES.values()]}
    run: Sarif = {
        "tool": {"driver": driver},
        # Without this, columns would count UTF-16 code units.
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic) for diagnostic in diagnostics],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }


def _rule(rule: Rule) -> Sarif:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.what},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _result(diagnostic: Diagnostic) -> Sarif:
    problem, span = diagnostic.problem, diagnostic.problem.span
    text = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
    region: Sarif = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    location: Sarif = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(os.fsencode(diagnostic.file))},
            "region": region,
        }
    }
    return {
        "ruleId": problem.code,
        "ruleIndex": list(RULES).index(problem.code),
        "level": diagnostic.severity.value,
        "message": {"text": text},
        "locations": [location],
    }
