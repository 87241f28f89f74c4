"""`plan` and `apply-manifest` on a database.

First all manifests are checked, or a saved plan is read, and wait on disk. Then each tenant is
planned, perhaps applied, reported and forgotten, so that memory does not grow with the fleet.
"""

import argparse
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from tenantcron.answers.outcomes import summary, tenant_answer
from tenantcron.answers.totals import total
from tenantcron.cli.database import acting, current_settings, with_database
from tenantcron.cli.report import Report, progress
from tenantcron.cli.sources import manifest_paths, read_manifests
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.fleet import apply_each, plan_each, prepare
from tenantcron.reconciler.outcome import Outcome
from tenantcron.reconciler.plan import Rules
from tenantcron.reconciler.planfile import PlanWriter, load_plan
from tenantcron.reconciler.sources import Prepared
from tenantcron.reconciler.spool import Spool
from tenantcron.store.engine import Database
from tenantcron.store.times import database_time
from tenantcron.tenants.creation import create_tenant

_NO_RULES = Rules()
_Keep = Callable[[Outcome], None]


def plan(arguments: argparse.Namespace, report: Report) -> None:
    """Plan, and save the plan if that is asked for."""
    paths, rules = manifest_paths(arguments), _rules(arguments)

    async def work(database: Database, keep: _Keep) -> None:
        with Spool() as spool:
            await _prepare(database, arguments, paths, spool)
            outcomes = _kept(plan_each(database, spool, rules), keep)
            await _tell(database, "Planning", outcomes, len(spool), report)

    if not arguments.out:
        with_database(partial(work, keep=_forget))
        return
    with PlanWriter(arguments.out, rules) as writer:
        with_database(partial(work, keep=writer.add))
        writer.finish()


def apply(arguments: argparse.Namespace, source_ref: str | None, report: Report) -> None:
    """Apply manifests or a saved plan."""
    with Spool() as spool:
        reviewed = load_plan(arguments.plan, spool) if arguments.plan else _NO_RULES
        paths = [] if arguments.plan else manifest_paths(arguments)
        rules = _rules(arguments, reviewed)
        applier = _applier(arguments, rules, source_ref)

        async def work(database: Database) -> None:
            if not arguments.plan:
                await _prepare(database, arguments, paths, spool)
            title, outcomes = "Applying", apply_each(applier(database), spool)
            if arguments.dry_run:
                title, outcomes = "Planning", plan_each(database, spool, rules)
            await _tell(database, title, outcomes, len(spool), report)

        with_database(work)


def _applier(
    arguments: argparse.Namespace, allowed: Rules, source_ref: str | None
) -> Callable[[Database], Applier]:
    """Settle in whose name and by which rules is applied, before a database is opened."""
    return partial(
        Applier,
        rules=allowed,
        who=acting(arguments.actor),
        source_ref=source_ref,
        create_tenant=partial(create_tenant, pattern=current_settings().schema_pattern),
    )


def _rules(arguments: argparse.Namespace, reviewed: Rules = _NO_RULES) -> Rules:
    """Return what the apply may do: what was reviewed with a plan, and what the options add."""
    given = arguments.max_deletes
    return Rules(
        create_tenants=arguments.create_tenants or reviewed.create_tenants,
        max_deletes=reviewed.max_deletes if given is None else given,
    )


async def _prepare(
    database: Database, arguments: argparse.Namespace, paths: Sequence[Path], spool: Spool
) -> None:
    with progress("Checking", len(paths)) as step:

        def keep(prepared: Prepared) -> None:
            spool.add(prepared)
            step()

        await prepare(database, read_manifests(arguments, paths), keep)


async def _tell(
    database: Database, title: str, outcomes: AsyncIterator[Outcome], fleet: int, report: Report
) -> None:
    """Report outcomes as they come; next executions count from the database's time."""
    now, totals = await _now(database), total(())
    report.begin(now, fleet)
    with progress(title, fleet, is_hidden=report.is_json) as step:
        async for outcome in outcomes:
            report.add(tenant_answer(outcome, now))
            totals = total((totals, summary(outcome)))
            step()
    report.end(totals)


async def _kept(outcomes: AsyncIterator[Outcome], keep: _Keep) -> AsyncIterator[Outcome]:
    async for outcome in outcomes:
        keep(outcome)
        yield outcome


async def _now(database: Database) -> datetime:
    async with database.transaction() as connection:
        return await database_time(connection)


def _forget(_: Outcome) -> None:
    """Keep nothing of an outcome that was reported."""
