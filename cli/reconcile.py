"""`plan` and `apply-manifest` on a database.

First, all manifests are checked (or a saved plan is read) and spooled to disk. Then each tenant is
planned, applied if requested, and reported. Memory use does not grow with the fleet.
"""

import argparse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path

from tenantcron.cli.database import acting, current_settings, with_database
from tenantcron.cli.report import OutcomeReport, progress
from tenantcron.cli.sources import manifest_paths, read_manifests
from tenantcron.manifests.files import ManifestFile, Policies, read_files
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.checking import Checking
from tenantcron.reconciler.fleet import apply_each, plan_each, prepare
from tenantcron.reconciler.outcome import ReconcileOutcome
from tenantcron.reconciler.plan import Rules
from tenantcron.reconciler.plan_keys import plan_keys
from tenantcron.reconciler.planfile import NoPlan, PlanWriter, SavedPlan, keep_reviewed, saved_plan
from tenantcron.reconciler.sources import Prepared
from tenantcron.reconciler.spool import Spool
from tenantcron.service.responses.outcomes import summary, tenant_answer
from tenantcron.service.responses.totals import total
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.schema.installation import identity
from tenantcron.tenants.creation import create_tenant

_NO_RULES = Rules()
_Keep = Callable[[ReconcileOutcome], None]
_Prepare = Callable[[Database, argparse.Namespace, Spool], Awaitable[None]]


def plan(arguments: argparse.Namespace, report: OutcomeReport) -> None:
    """Plan, and save the plan if requested."""
    paths, rules = manifest_paths(arguments), _rules(arguments)

    async def work(database: Database) -> None:
        with Spool() as spool, closing(await _writer(database, arguments, rules)) as writer:
            await _prepare(database, len(paths), read_manifests(arguments, paths), spool.add)
            outcomes = _keep_each(plan_each(database, spool, rules), writer.add)
            await _report(database, "Planning", outcomes, len(spool), report)
            writer.finish()

    with_database(work)


async def _writer(
    database: Database, arguments: argparse.Namespace, rules: Rules
) -> PlanWriter | NoPlan:
    if not arguments.out:
        return NoPlan()
    policies = Policies(arguments.policy)

    def read(file: Path) -> ManifestFile:
        return next(read_files([file], policies, arguments.tenant))

    keys = plan_keys(current_settings())
    return PlanWriter(arguments.out, rules, read, await identity(database), keys)


def apply(arguments: argparse.Namespace, source_ref: str | None, report: OutcomeReport) -> None:
    """Apply manifests or a saved plan."""
    if arguments.plan:
        with saved_plan(arguments.plan, plan_keys(current_settings())) as saved:
            _apply(arguments, source_ref, report, saved.rules, partial(_prepare_saved, saved))
        return
    paths = manifest_paths(arguments)
    manifests = partial(read_manifests, arguments, paths)

    async def prepare_files(database: Database, _: argparse.Namespace, spool: Spool) -> None:
        await _prepare(database, len(paths), manifests(), spool.add)

    _apply(arguments, source_ref, report, _NO_RULES, prepare_files)


def _apply(
    arguments: argparse.Namespace,
    source_ref: str | None,
    report: OutcomeReport,
    reviewed: Rules,
    prepare: _Prepare,
) -> None:
    rules = _rules(arguments, reviewed)
    applier = _applier(arguments, rules, source_ref)

    async def work(database: Database) -> None:
        with Spool() as spool:
            await prepare(database, arguments, spool)
            report.expect(len(spool))
            title, outcomes = "Applying", apply_each(applier(database), spool, report.finished)
            if arguments.dry_run:
                title, outcomes = "Planning", plan_each(database, spool, rules)
            await _report(database, title, outcomes, len(spool), report)

    with_database(work)


def _applier(
    arguments: argparse.Namespace, allowed: Rules, source_ref: str | None
) -> Callable[[Database], Applier]:
    """Resolve the actor and the rules before the database is opened."""
    return partial(
        Applier,
        rules=allowed,
        who=acting(arguments.actor),
        source_ref=source_ref,
        create_tenant=partial(create_tenant, pattern=current_settings().schema_pattern),
    )


def _rules(arguments: argparse.Namespace, reviewed: Rules = _NO_RULES) -> Rules:
    """Return the rules of the apply: those of a reviewed plan, overridden by the options."""
    given = arguments.max_deletes
    return Rules(
        create_tenants=arguments.create_tenants or reviewed.create_tenants,
        max_deletes=reviewed.max_deletes if given is None else given,
    )


async def _prepare(
    database: Database,
    number: int,
    manifests: Iterable[ManifestFile],
    keep: Callable[[Prepared], None],
) -> None:
    with progress("Checking", number) as step, Checking() as checking:

        def kept(prepared: Prepared) -> None:
            keep(prepared)
            step()

        await prepare(database, manifests, kept, checking)


async def _prepare_saved(
    saved: SavedPlan, database: Database, arguments: argparse.Namespace, spool: Spool
) -> None:
    """Check the manifests of a plan again, with the current policy."""
    saved.require_made_from(await identity(database))
    manifests = saved.manifests(Policies(arguments.policy))
    await _prepare(database, len(saved), manifests, keep_reviewed(saved, spool))


async def _report(
    database: Database,
    title: str,
    outcomes: AsyncIterator[ReconcileOutcome],
    fleet: int,
    report: OutcomeReport,
) -> None:
    """Report outcomes one by one; next executions are computed from the database's time."""
    now, totals = await _now(database), total(())
    report.begin(now, fleet)
    with progress(title, fleet, is_hidden=report.is_json) as step:
        async for outcome in outcomes:
            report.add(tenant_answer(outcome, now))
            totals = total((totals, summary(outcome)))
            step()
    report.end(totals)


async def _keep_each(
    outcomes: AsyncIterator[ReconcileOutcome], keep: _Keep
) -> AsyncIterator[ReconcileOutcome]:
    async for outcome in outcomes:
        keep(outcome)
        yield outcome


async def _now(database: Database) -> datetime:
    async with database.transaction() as connection:
        return await database_time(connection)
