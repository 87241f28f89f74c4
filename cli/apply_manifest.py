"""`tenantcron apply-manifest`: brings the tenants' schedules in line with their manifests."""

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tenantcron.actor.origin import source_ref
from tenantcron.cli.database import acting, with_database
from tenantcron.cli.reconcile import (
    Report,
    any_failed,
    configure_sources,
    manifests,
    progress,
    rules,
)
from tenantcron.core.errors import UsageError
from tenantcron.manifests.files import ManifestFile
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.fleet import apply_all, plan_all, prepare_all
from tenantcron.reconciler.outcome import Outcome
from tenantcron.reconciler.plan import Rules
from tenantcron.reconciler.planfile import load_plan
from tenantcron.reconciler.sources import Prepared
from tenantcron.store.engine import Database
from tenantcron.store.manifest_versions import LONGEST_SOURCE_REF
from tenantcron.tenants.registry import create_tenant

_EXAMPLES = """\
examples:
  tenantcron apply-manifest manifests/
  tenantcron apply-manifest manifests/acme.yaml --create-tenants
  tenantcron apply-manifest --plan reviewed.plan     exactly what was reviewed, or nothing
  tenantcron apply-manifest manifests/ --format json --source-ref "$COMMIT"
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
    saved = load_plan(arguments.plan) if arguments.plan else None
    files = manifests(arguments) if saved is None else []
    applier = _applier(arguments, rules(arguments, saved.rules if saved else Rules()))

    async def work(database: Database) -> list[Outcome]:
        prepared = saved.prepared if saved is not None else await _prepare(database, files)
        outcomes = await _reconcile(applier(database), prepared, dry_run=arguments.dry_run)
        await Report("tenantcron apply-manifest", arguments.format).tell(database, outcomes)
        return outcomes

    return int(any_failed(with_database(work)))


async def _prepare(database: Database, files: list[ManifestFile]) -> list[Prepared]:
    with progress("Checking", len(files)) as step:
        return await prepare_all(database, files, step)


def _applier(arguments: argparse.Namespace, allowed: Rules) -> Callable[[Database], Applier]:
    """Settle in whose name and by which rules is applied, before a database is opened."""
    return partial(
        Applier,
        rules=allowed,
        who=acting(arguments.actor),
        source_ref=_source_ref(arguments.source_ref) or source_ref(os.environ),
        create_tenant=create_tenant,
    )


def _source_ref(given: str | None) -> str | None:
    if given and (len(given) > LONGEST_SOURCE_REF or not given.isprintable()):
        raise UsageError(f"--source-ref takes up to {LONGEST_SOURCE_REF} printable characters")
    return given


async def _reconcile(
    applier: Applier, prepared: Sequence[Prepared], *, dry_run: bool
) -> list[Outcome]:
    if dry_run:
        return await plan_all(applier.database, prepared, applier.rules)
    with progress("Applying", len(prepared)) as step:
        return await apply_all(applier, prepared, step)
