"""`tenantcron apply-manifest`: applies manifests to the schedules of their tenants."""

import argparse
import os
from pathlib import Path

from tenantcron.actor.origin import LONGEST_SOURCE_REF, source_ref
from tenantcron.cli.clusters.choice import chosen, refuse_actor
from tenantcron.cli.clusters.targets import ChosenDatabase, ChosenServer
from tenantcron.cli.environment import using_database
from tenantcron.cli.report import OutcomeReport
from tenantcron.cli.sources import configure_sources, manifest_paths
from tenantcron.core.errors import UsageError

_EXAMPLES = """\
examples:
  tenantcron apply-manifest manifests/
  tenantcron apply-manifest manifests/acme.yaml --create-tenants
  tenantcron apply-manifest --plan reviewed.plan     apply exactly what was reviewed
  tenantcron apply-manifest manifests/ --format json --source-ref "$COMMIT"
  tenantcron apply-manifest manifests/ --server https://cron.internal
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Apply manifests to the schedules of their tenants. Each tenant is one transaction, "
        "recorded with its actor, and written only if something differs. Schedules that are no "
        "longer in the manifest are deleted."
    )
    parser.epilog = _EXAMPLES
    configure_sources(parser, required=False)
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")
    parser.add_argument(
        "--actor", metavar="ID", help="record this actor (default: pipeline, else login)"
    )
    parser.add_argument("--source-ref", metavar="REF", help="record this source, such as a commit")
    parser.add_argument("--plan", type=Path, metavar="PLANFILE", help="apply a saved plan")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Apply the manifests and report the outcome; return 1 if any tenant failed."""
    if bool(arguments.paths) == bool(arguments.plan):
        raise UsageError("give either the manifests to apply or a plan with --plan")
    report = OutcomeReport(
        "tenantcron apply-manifest",
        arguments.format,
        is_wide=arguments.wide,
        has_sources=not arguments.plan,
    )
    try:
        _report(arguments, report)
    except KeyboardInterrupt:
        report.interrupted()
        raise
    return int(report.any_failed)


def _report(arguments: argparse.Namespace, report: OutcomeReport) -> None:
    """Apply through a server or in the database; only the latter imports a database driver."""
    ref = _source_ref(arguments.source_ref) or source_ref(os.environ)
    if not arguments.plan:
        # Ctrl-C may come before the manifests are read; the slow imports follow.
        report.expect(len(manifest_paths(arguments)))
    match chosen(arguments):
        case ChosenServer() as target:
            from tenantcron.cli import remote  # noqa: PLC0415 -- see above

            refuse_actor(arguments.actor)
            report.all(remote.apply(arguments, ref, target, report))
        case ChosenDatabase() as database:
            from tenantcron.cli import reconcile  # noqa: PLC0415 -- see above

            with using_database(database):
                reconcile.apply(arguments, ref, report)


def _source_ref(given: str | None) -> str | None:
    if given and (len(given) > LONGEST_SOURCE_REF or not given.isprintable()):
        raise UsageError(f"--source-ref has at most {LONGEST_SOURCE_REF} printable characters")
    return given
