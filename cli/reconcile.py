"""`plan` and `apply-manifest` on a database."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial

from tenantcron.answers.outcomes import answer
from tenantcron.answers.shapes import OutcomesAnswer
from tenantcron.cli.database import acting, with_database
from tenantcron.cli.report import any_failed, progress
from tenantcron.cli.sources import manifests
from tenantcron.manifests.files import ManifestFile
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.fleet import apply_all, plan_all, prepare_all
from tenantcron.reconciler.outcome import Outcome
from tenantcron.reconciler.plan import Rules
from tenantcron.reconciler.planfile import load_plan, save_plan
from tenantcron.reconciler.sources import Prepared
from tenantcron.store.engine import Database
from tenantcron.store.times import database_time
from tenantcron.tenants.registry import create_tenant

_NO_RULES = Rules()


def plan(arguments: argparse.Namespace) -> OutcomesAnswer:
    """Plan, and save the plan if that is asked for."""
    files = manifests(arguments)

    async def work(database: Database) -> tuple[list[Outcome], OutcomesAnswer]:
        prepared = await _prepare(database, files)
        outcomes = await plan_all(database, prepared, _rules(arguments))
        return outcomes, await _answer(database, outcomes)

    outcomes, told = with_database(work)
    if arguments.out and not any_failed(told):
        save_plan(arguments.out, outcomes, _rules(arguments))
    return told


def apply(arguments: argparse.Namespace, source_ref: str | None) -> OutcomesAnswer:
    """Apply manifests or a saved plan."""
    saved = load_plan(arguments.plan) if arguments.plan else None
    files = manifests(arguments) if saved is None else []
    applier = _applier(
        arguments, _rules(arguments, saved.rules if saved else _NO_RULES), source_ref
    )

    async def work(database: Database) -> OutcomesAnswer:
        prepared = saved.prepared if saved is not None else await _prepare(database, files)
        outcomes = await _reconcile(applier(database), prepared, dry_run=arguments.dry_run)
        return await _answer(database, outcomes)

    return with_database(work)


def _applier(
    arguments: argparse.Namespace, allowed: Rules, source_ref: str | None
) -> Callable[[Database], Applier]:
    """Settle in whose name and by which rules is applied, before a database is opened."""
    return partial(
        Applier,
        rules=allowed,
        who=acting(arguments.actor),
        source_ref=source_ref,
        create_tenant=create_tenant,
    )


def _rules(arguments: argparse.Namespace, reviewed: Rules = _NO_RULES) -> Rules:
    """Return what the apply may do: what was reviewed with a plan, and what the options add."""
    given = arguments.max_deletes
    return Rules(
        create_tenants=arguments.create_tenants or reviewed.create_tenants,
        max_deletes=reviewed.max_deletes if given is None else given,
    )


async def _prepare(database: Database, files: list[ManifestFile]) -> list[Prepared]:
    with progress("Checking", len(files)) as step:
        return await prepare_all(database, files, step)


async def _reconcile(
    applier: Applier, prepared: Sequence[Prepared], *, dry_run: bool
) -> list[Outcome]:
    if dry_run:
        return await plan_all(applier.database, prepared, applier.rules)
    with progress("Applying", len(prepared)) as step:
        return await apply_all(applier, prepared, step)


async def _answer(database: Database, outcomes: Sequence[Outcome]) -> OutcomesAnswer:
    """Return the answer; the next executions count from the database's time."""
    async with database.transaction() as connection:
        now = await database_time(connection)
    return answer(outcomes, now)
