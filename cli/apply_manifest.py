"""`tenantcron apply-manifest`: brings the tenants' schedules in line with their manifests."""

import argparse
import os
from pathlib import Path

from tenantcron.actor.origin import LONGEST_SOURCE_REF, source_ref
from tenantcron.cli.report import OutcomeReport
from tenantcron.cli.sources import configure_sources
from tenantcron.core.errors import UsageError

_EXAMPLES = """\
examples:
  tenantcron apply-manifest manifests/
  tenantcron apply-manifest manifests/acme.yaml --create-tenants
  tenantcron apply-manifest --plan reviewed.plan     exactly what was reviewed, or nothing
  tenantcron apply-manifest manifests/ --format json --source-ref "$COMMIT"
  tenantcron apply-manifest manifests/ --server https://cron.internal
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Bring the tenants' schedules in line with their manifests: each tenant in one "
        "transaction, attributed, and only if something differs. Schedules that left a manifest "
        "are deleted."
    )
    parser.epilog = _EXAMPLES
    configure_sources(parser, required=False)
    parser.add_argument("--dry-run", action="store_true", help="plan only, as `plan` does")
    parser.add_argument("--actor", metavar="ID", help="who applies (default: pipeline, else login)")
    parser.add_argument("--source-ref", metavar="REF", help="what is applied, such as a commit")
    parser.add_argument("--plan", type=Path, metavar="PLANFILE", help="apply a saved plan")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Apply and report; 1 if any tenant failed."""
    if bool(arguments.paths) == bool(arguments.plan):
        raise UsageError("name the manifests to apply, or a plan with --plan, and not both")
    report = OutcomeReport("tenantcron apply-manifest", arguments.format)
    _report(arguments, report)
    return int(report.any_failed)


def _report(arguments: argparse.Namespace, report: OutcomeReport) -> None:
    """Ask a server or a database; only the second needs a driver."""
    ref = _source_ref(arguments.source_ref) or source_ref(os.environ)
    if arguments.server:
        from tenantcron.cli import remote  # noqa: PLC0415 -- see above

        if arguments.actor:
            raise UsageError(
                "--actor does not go with --server: it applies in the name that the token proves"
            )
        report.all(remote.apply(arguments, ref))
        return
    from tenantcron.cli import reconcile  # noqa: PLC0415 -- see above

    reconcile.apply(arguments, ref, report)


def _source_ref(given: str | None) -> str | None:
    if given and (len(given) > LONGEST_SOURCE_REF or not given.isprintable()):
        raise UsageError(f"--source-ref takes up to {LONGEST_SOURCE_REF} printable characters")
    return given
