"""`tenantcron plan`: shows what applying manifests would change; writes nothing."""

import argparse
import sys
from pathlib import Path

from tenantcron.cli.database import with_database
from tenantcron.cli.reconcile import (
    Report,
    any_failed,
    configure_sources,
    manifests,
    progress,
    rules,
)
from tenantcron.core.errors import TenantcronError
from tenantcron.reconciler.fleet import plan_all, prepare_all
from tenantcron.reconciler.outcome import Outcome, Status
from tenantcron.reconciler.planfile import save_plan
from tenantcron.store.engine import Database

_EXAMPLES = """\
examples:
  tenantcron plan manifests/
  tenantcron plan manifests/ --out reviewed.plan     then: apply-manifest --plan reviewed.plan
  tenantcron plan manifests/ --detailed-exitcode     0 no change, 1 error, 2 changes
"""
_FAILED, _CHANGES = 1, 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Show what applying manifests would change. Writes nothing."
    parser.epilog = _EXAMPLES
    configure_sources(parser, required=True)
    parser.add_argument(
        "--detailed-exitcode", action="store_true", help="0 no change, 1 error, 2 changes"
    )
    parser.add_argument("--out", type=Path, metavar="PLANFILE", help="save the plan for an apply")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plan and report; with --detailed-exitcode an error is 1, because 2 stands for changes."""
    try:
        return _plan(arguments)
    except TenantcronError as error:
        if not arguments.detailed_exitcode:
            raise
        print(f"error: {error}", file=sys.stderr)
        return _FAILED


def _plan(arguments: argparse.Namespace) -> int:
    files = manifests(arguments)

    async def work(database: Database) -> list[Outcome]:
        with progress("Checking", len(files)) as step:
            prepared = await prepare_all(database, files, step)
        outcomes = await plan_all(database, prepared, rules(arguments))
        await Report("tenantcron plan", arguments.format).tell(database, outcomes)
        return outcomes

    outcomes = with_database(work)
    if any_failed(outcomes):
        return _FAILED
    if arguments.out:
        save_plan(arguments.out, outcomes, rules(arguments))
    changes = any(one.status is Status.PLANNED for one in outcomes)
    return _CHANGES if changes and arguments.detailed_exitcode else 0
