"""`tenantcron plan`: shows what applying manifests would change, without writing."""

import argparse
import sys
from pathlib import Path

from tenantcron.cli.report import OutcomeReport
from tenantcron.cli.sources import configure_sources
from tenantcron.core.errors import TenantcronError

_EXAMPLES = """\
examples:
  tenantcron plan manifests/
  tenantcron plan manifests/ --out reviewed.plan     for apply-manifest --plan reviewed.plan
  tenantcron plan manifests/ --detailed-exitcode     0 no change, 1 error, 2 changes
  tenantcron plan manifests/ --server https://cron.internal
"""
_FAILED, _CHANGES = 1, 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Show what applying manifests would change. Writes nothing."
    parser.epilog = _EXAMPLES
    configure_sources(parser, required=True)
    parser.add_argument(
        "--detailed-exitcode",
        action="store_true",
        help="exit with 0 for no change, 1 for an error, 2 for changes",
    )
    parser.add_argument("--out", type=Path, metavar="PLANFILE", help="save the plan to a file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plan and report; with --detailed-exitcode an error is 1, because 2 means changes."""
    try:
        return _plan(arguments)
    except TenantcronError as error:
        if not arguments.detailed_exitcode:
            raise
        print(f"error: {error}", file=sys.stderr)
        return _FAILED


def _plan(arguments: argparse.Namespace) -> int:
    report = OutcomeReport("tenantcron plan", arguments.format, is_wide=arguments.wide)
    _report(arguments, report)
    if report.any_failed:
        return _FAILED
    return _CHANGES if report.any_planned and arguments.detailed_exitcode else 0


def _report(arguments: argparse.Namespace, report: OutcomeReport) -> None:
    """Plan on a server or in the database; only the latter imports a database driver."""
    if arguments.server:
        from tenantcron.cli import remote  # noqa: PLC0415 -- see above

        report.all(remote.plan(arguments))
        return
    from tenantcron.cli import reconcile  # noqa: PLC0415 -- see above

    reconcile.plan(arguments, report)
