"""Diagnostics as SARIF 2.1.0, for code scanning.

Microsoft's validator finds no errors and no warnings in it (`tests/cli/test_sarif.py`).
"""

import os
from collections.abc import Iterable
from importlib.metadata import version
from urllib.parse import quote

from tenantcron.cli.formats.excerpts import SourceText, columns_of
from tenantcron.core.words import visible
from tenantcron.manifests.diagnostics import Diagnostic, Span, json_pointer
from tenantcron.manifests.files import STDIN
from tenantcron.manifests.language.rules import RULES, Rule

Sarif = dict[str, "str | int | list[Sarif] | Sarif"]

# Relative files are below the folder in which `validate` ran, in CI usually the repository.
_ROOT = "%SRCROOT%"
# A package URL. The project has no home page that every installation can reach.
_INFORMATION = "pkg:pypi/tenantcron"
# Longer excerpts are omitted: they would make the log larger than the manifests.
_LONGEST_EXCERPT = 2_000


def sarif_log(found: Iterable[list[Diagnostic]], stdin: bytes | None = None) -> Sarif:
    """Return the content of a SARIF file for the diagnostics of each file."""
    run: Sarif = {
        "tool": {"driver": _driver()},
        # GitHub shows runs with different ids side by side. The slash ends the category.
        "automationDetails": {"id": "tenantcron/"},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The working directory."}}},
        # Without this, columns would count UTF-16 code units.
        "columnKind": "unicodeCodePoints",
        "results": [result for diagnostics in found for result in _results(diagnostics, stdin)],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }


def _driver() -> Sarif:
    return {
        "name": "tenantcron",
        "version": version("tenantcron"),
        "informationUri": _INFORMATION,
        "rules": [_rule(rule) for rule in RULES.values()],
    }


def _rule(rule: Rule) -> Sarif:
    more = f"`tenantcron explain {rule.code}` shows this text."
    return {
        "id": rule.code,
        "name": rule.name.title().replace("-", ""),
        "shortDescription": {"text": rule.what},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": rule.fix,
            "markdown": f"{rule.what}\n\n**Why:** {rule.why}\n\n**Fix:** {rule.fix}\n\n{more}",
        },
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _results(diagnostics: list[Diagnostic], stdin: bytes | None) -> list[Sarif]:
    if not diagnostics:
        return []
    is_stdin = diagnostics[0].file == STDIN.as_posix()
    source = SourceText(diagnostics, stdin if is_stdin else None)
    return [_result(diagnostic, source) for diagnostic in diagnostics]


def _result(diagnostic: Diagnostic, source: SourceText) -> Sarif:
    problem = diagnostic.problem
    text = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
    place: Sarif = {"artifactLocation": _artifact(diagnostic.file)}
    return {
        "ruleId": problem.code,
        "ruleIndex": list(RULES).index(problem.code),
        "level": diagnostic.severity.value,
        "message": {"text": _sentence(text)},
        "locations": [{"physicalLocation": place | _regions(problem.span, source)}],
        # Finds a result again after lines were added above it.
        "partialFingerprints": {"pointer/v1": f"{problem.code} {json_pointer(problem.pointer)}"},
    }


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _artifact(file: str) -> Sarif:
    uri = quote(os.fsencode(file))
    if file.startswith("/"):
        return {"uri": f"file://{uri}"}
    return {"uri": uri, "uriBaseId": _ROOT}


def _regions(span: Span, source: SourceText) -> Sarif:
    """Return the region, with its text and the lines around it unless they are long."""
    region: Sarif = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    first, last = max(1, span.line - 1), min(len(source), span.end_line + 1)
    around = range(first, last + 1)
    if not around or sum(map(source.length, around)) > _LONGEST_EXCERPT:
        return {"region": region}
    lines = {number: visible(source.line(number, 1).replace("\t", " ")) for number in around}
    context: Sarif = {
        "startLine": first,
        "endLine": last,
        "snippet": {"text": "\n".join(lines.values())},
    }
    return {
        "region": region | {"snippet": {"text": _marked(span, lines)}},
        "contextRegion": context,
    }


def _marked(span: Span, lines: dict[int, str]) -> str:
    """Return the text of the span."""
    marked = {
        number: line for number, line in lines.items() if span.line <= number <= span.end_line
    }
    return "\n".join(
        line[slice(*columns_of(span, number, line))] for number, line in marked.items()
    )
