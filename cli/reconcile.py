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

from tenantcron.cli.database import acting, with_database
from tenantcron.cli.environment import current_settings
from tenantcron.cli.formats.policies_text import policies_as_json
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
_Prepare = Callable[[Database, Policies, Spool], Awaitable[None]]


def plan(arguments: argparse.Namespace, report: OutcomeReport) -> None:
    """Plan, and save the plan if requested."""
    paths, rules = manifest_paths(arguments), _rules(arguments)
    policies = Policies(arguments.policy)
    manifests = read_manifests(arguments, paths, policies)

    async def work(database: Database) -> None:
        with (
            Spool() as spool,
            closing(await _writer(database, arguments, rules, policies)) as writer,
        ):
            await _prepare(database, len(paths), manifests, spool.add)
            report.checked_with(policies_as_json(policies.used))
            outcomes = _keep_each(plan_each(database, spool, rules), writer.add)
            await _report(await _now(database), "Planning", outcomes, len(spool), report)
            writer.finish()

    with_database(work)


async def _writer(
    database: Database, arguments: argparse.Namespace, rules: Rules, policies: Policies
) -> PlanWriter | NoPlan:
    if not arguments.out:
        return NoPlan()

    def read(file: Path) -> ManifestFile:
        return next(read_files([file], policies, arguments.tenant))

    keys = plan_keys(current_settings())
    return PlanWriter(arguments.out, rules, read, await identity(database), keys)


def apply(arguments: argparse.Namespace, source_ref: str | None, report: OutcomeReport) -> None:
    """Apply manifests or a saved plan."""
    if arguments.plan:
        with saved_plan(arguments.plan, plan_keys(current_settings())) as saved:
            report.expect(len(saved))
            _apply(arguments, source_ref, report, saved.rules, partial(_prepare_saved, saved))
        return
    paths = manifest_paths(arguments)

    async def prepare_files(database: Database, policies: Policies, spool: Spool) -> None:
        manifests = read_manifests(arguments, paths, policies)
        await _prepare(database, len(paths), manifests, spool.add)

    _apply(arguments, source_ref, report, _NO_RULES, prepare_files)


def _apply(
    arguments: argparse.Namespace,
    source_ref: str | None,
    report: OutcomeReport,
    reviewed: Rules,
    prepare: _Prepare,
) -> None:
    rules = _rules(arguments, reviewed)
    applier, policies = _applier(arguments, rules, source_ref), Policies(arguments.policy)

    async def work(database: Database) -> None:
        with Spool() as spool:
            await prepare(database, policies, spool)
            report.checked_with(policies_as_json(policies.used))
            report.expect(len(spool))
            now = await _now(database)

            def finished(outcome: ReconcileOutcome) -> None:
                report.finished(now, tenant_answer(outcome, now))

            title, outcomes = "Applying", apply_each(applier(database), spool, finished)
            if arguments.dry_run:
                title, outcomes = "Planning", plan_each(database, spool, rules)
            await _report(now, title, outcomes, len(spool), report)

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
    saved: SavedPlan, database: Database, policies: Policies, spool: Spool
) -> None:
    """Check the manifests of a plan again, with the current policy."""
    saved.require_made_from(await identity(database))
    await _prepare(database, len(saved), saved.manifests(policies), keep_reviewed(saved, spool))


async def _report(
    now: datetime,
    title: str,
    outcomes: AsyncIterator[ReconcileOutcome],
    fleet: int,
    report: OutcomeReport,
) -> None:
    """Report outcomes one by one; next executions are computed from the database's time."""
    totals = total(())
    report.begin(now, fleet)
    with progress(title, fleet, is_hidden=report.is_for_programs) as step:
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
