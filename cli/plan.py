"""`tenantcron plan`: shows what applying manifests would change, without writing."""

import argparse
from pathlib import Path

from tenantcron.cli.clusters.choice import chosen
from tenantcron.cli.clusters.targets import ChosenDatabase, ChosenServer
from tenantcron.cli.environment import using_database
from tenantcron.cli.report import OutcomeReport
from tenantcron.cli.sources import configure_sources

_EXAMPLES = """\
examples:
  tenantcron plan manifests/
  tenantcron plan manifests/ --out reviewed.plan     for apply-manifest --plan reviewed.plan
  tenantcron plan manifests/ --detailed-exitcode     0 no change, 2 changes, 1 or 3 error
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
        help="0 no change, 1 a tenant failed, 2 changes, 3 other errors",
    )
    parser.add_argument("--out", type=Path, metavar="PLANFILE", help="save the plan to a file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plan and report; return 1 if any tenant failed."""
    report = OutcomeReport("tenantcron plan", arguments.format, is_wide=arguments.wide)
    _report(arguments, report)
    if report.any_failed:
        return _FAILED
    return _CHANGES if report.any_planned and arguments.detailed_exitcode else 0


def _report(arguments: argparse.Namespace, report: OutcomeReport) -> None:
    """Plan on a server or in the database; only the latter imports a database driver."""
    match chosen(arguments):
        case ChosenServer() as target:
            from tenantcron.cli import remote  # noqa: PLC0415 -- see above

            report.all(remote.plan(arguments, target))
        case ChosenDatabase() as database:
            from tenantcron.cli import reconcile  # noqa: PLC0415 -- see above

            with using_database(database):
                reconcile.plan(arguments, report)
