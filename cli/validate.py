"""`tenantcron validate`: checks manifests without a database or a network."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from tenantcron.cli.formats import text
from tenantcron.cli.formats.github import annotation
from tenantcron.cli.terminal import Palette, width
from tenantcron.core.memory import collect_rarely
from tenantcron.core.words import visible
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import STDIN, CheckedFile, TenantsSeen, find_files, policy_files
from tenantcron.manifests.language.rules import Severity
from tenantcron.manifests.many import WORTH_PROCESSES, ManifestChecker
from tenantcron.service.responses.diagnostics import as_json

_DASH = Path("-")
_EXAMPLES = """\
examples:
  tenantcron validate manifests/                    check every manifest in a folder
  tenantcron validate --strict acme.yaml            fail on warnings, too
  tenantcron validate - < acme.yaml                 check standard input
  tenantcron validate --format github manifests/    annotate a pull request
  tenantcron explain TC301                          explain a code and how to fix it
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Check manifests without a database or network connection."
    parser.epilog = _EXAMPLES
    words = "files, folders, or - for standard input"
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=words)
    parser.add_argument("--policy", type=Path, metavar="FILE", help="use this tenantcron.toml")
    parser.add_argument(
        "--tenant", metavar="ID", help="set the tenant of a manifest that does not name one"
    )
    parser.add_argument("--strict", action="store_true", help="fail on warnings, too")
    parser.add_argument(
        "--format", choices=list(_WRITERS), default="text", help="set the output format (text)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check and report; return 1 if there are errors."""
    collect_rarely()
    files = find_files(path for path in arguments.paths if path != _DASH)
    stdin = sys.stdin.buffer.read() if _DASH in arguments.paths else None
    sources = files if stdin is None else [STDIN, *files]
    totals = ValidationTotals(policy_files(sources, arguments.policy), stdin)
    checker = ManifestChecker(arguments.policy, arguments.tenant, datetime.now(UTC))
    checked = _with_progress(checker.check_all(files), len(files))
    if stdin is not None:
        checked = chain([checker.check_stdin(stdin)], checked)
    found = _diagnostics(checked, totals)
    _WRITERS[arguments.format](found, totals)
    return int(totals.errors > 0 or (arguments.strict and totals.warnings > 0))


class ValidationTotals:
    """The number of checked files, errors and warnings, and what they were checked with."""

    __slots__ = ("errors", "files", "policies", "stdin", "warnings")

    def __init__(self, policies: Sequence[str], stdin: bytes | None) -> None:
        # The manifest on standard input, for excerpts: it can be read only once.
        self.stdin = stdin
        # The policy files; if empty, the default policy applies.
        self.policies = policies
        self.files = 0
        self.errors = 0
        self.warnings = 0

    def add(self, diagnostics: list[Diagnostic]) -> None:
        """Count a file."""
        errors = sum(found.severity is Severity.ERROR for found in diagnostics)
        self.files += 1
        self.errors += errors
        self.warnings += len(diagnostics) - errors


def _diagnostics(
    files: Iterable[CheckedFile], totals: ValidationTotals
) -> Iterator[list[Diagnostic]]:
    """Yield the diagnostics of each file, ordered by position."""
    tenants = TenantsSeen()
    for file in files:
        declared_twice = tenants.add(file)
        diagnostics = file.diagnostics + ([declared_twice] if declared_twice else [])
        diagnostics.sort(key=lambda diagnostic: diagnostic.sort_key)
        totals.add(diagnostics)
        yield diagnostics


def _with_progress(files: Iterable[CheckedFile], total: int) -> Iterable[CheckedFile]:
    """Show a progress bar if stderr is a terminal and there are many files."""
    if total < WORTH_PROCESSES or not sys.stderr.isatty():
        return files
    from rich.console import Console  # noqa: PLC0415 -- only needed for many files
    from rich.progress import track  # noqa: PLC0415 -- as above

    console = Console(stderr=True)
    return track(files, "Checking", total=total, console=console, transient=True)


def _write_text(found: Iterable[list[Diagnostic]], totals: ValidationTotals) -> None:
    paint, columns = Palette(sys.stdout), width()
    for diagnostics in found:
        is_stdin = bool(diagnostics) and diagnostics[0].file == STDIN.as_posix()
        content = totals.stdin if is_stdin else None
        for line in text.render(diagnostics, paint, columns, content):
            print(line)
    print(text.summary(totals.files, totals.errors, totals.warnings, paint))
    if totals.policies:
        print(visible(f"policy: {', '.join(totals.policies)}"))


def _write_json(found: Iterable[list[Diagnostic]], totals: ValidationTotals) -> None:
    diagnostics = [as_json(diagnostic) for diagnostic in chain.from_iterable(found)]
    counts = {"files": totals.files, "errors": totals.errors, "warnings": totals.warnings}
    results = {"policies": list(totals.policies), "diagnostics": diagnostics}
    print(json.dumps(counts | results, indent=2))


def _write_github(found: Iterable[list[Diagnostic]], _: ValidationTotals) -> None:
    for diagnostic in chain.from_iterable(found):
        print(annotation(diagnostic))


def _write_sarif(found: Iterable[list[Diagnostic]], totals: ValidationTotals) -> None:
    from tenantcron.cli.formats.sarif import sarif_log  # noqa: PLC0415 -- imports urllib

    print(json.dumps(sarif_log(found, totals.stdin), indent=2))


_WRITERS = {
    "text": _write_text,
    "json": _write_json,
    "github": _write_github,
    "sarif": _write_sarif,
}
