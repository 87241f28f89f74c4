"""`tenantcron tenant refresh`: syncs the tenants with the tenant source.

Exit codes: 0 success, 1 if the source cannot be read, has problems or has held changes, and with
--check also if a tenant differs.
"""

import argparse
from collections.abc import Iterator
from uuid import uuid4

from rich.console import Console
from rich.text import Text

from tenantcron.cli.database import acting
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import CommandResult, add_actor, add_format, respond, settings
from tenantcron.core.errors import UsageError
from tenantcron.core.values import JsonObject
from tenantcron.core.words import number_of, visible
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, tenant_sources
from tenantcron.store.rows.tenant_sources import SourceProblem
from tenantcron.store.rows.tenants import HIGHEST_LIMIT
from tenantcron.tenants.source.plan import PlannedTenantChange, SourcePlan, differences
from tenantcron.tenants.source.reading import TenantSource, tenant_source
from tenantcron.tenants.source.refresh import Refresher, SourceRefresh

HELP = "sync the tenants with the platform's registry"
# The text shows at most this many changes; JSON has all of them.
_SHOWN = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Read the tenant source, show the differences and apply them. Works without a running "
        "scheduler."
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="show differences, change nothing")
    choice.add_argument(
        "--detach", action="store_true", help="remove the source; keep its tenants as they are"
    )
    parser.add_argument(
        "--max-missing",
        metavar="N",
        type=number(0, HIGHEST_LIMIT),
        help="suspend up to N tenants that are missing in the source",
    )
    add_actor(parser)
    add_format(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(database: Database, arguments: argparse.Namespace) -> CommandResult:
    if arguments.detach:
        return await _detach(database, arguments)
    pattern = settings().schema_pattern
    refresher = Refresher(database, _source(), acting(arguments.actor), pattern)
    if arguments.check:
        compared, plan = await refresher.plan(arguments.max_missing)
        done = SourceRefresh(plan, compared.given, (), plan.problems)
    else:
        done = await _refresh(refresher, arguments.max_missing)
    return _answer(refresher.source.name, done, is_check=arguments.check)


async def _refresh(refresher: Refresher, max_missing: int | None) -> SourceRefresh:
    """Take the turn from a scheduler that may be refreshing, and refresh."""
    token = uuid4()
    async with refresher.database.transaction() as connection:
        max_age = settings().tenant_source_max_age
        await tenant_sources.declare(connection, refresher.source.name, max_age, None)
        await tenant_sources.take_turn(connection, token, None, None)
    return await refresher.refresh(token, max_missing)


async def _detach(database: Database, arguments: argparse.Namespace) -> CommandResult:
    if settings().tenant_source is not None:
        raise UsageError(
            "the setting tenant_source is still set, and a scheduler that has it would attach the "
            "source again: remove it from all settings first"
        )
    async with database.transaction() as connection:
        await audit_records.act(connection, acting(arguments.actor))
        released = await tenant_sources.detach(connection)

    def show(console: Console) -> None:
        console.print(f"detached; {number_of(released, 'tenant')} can be edited here again")

    return CommandResult({"detached": True, "released": released}, show)


def _source() -> TenantSource:
    text = settings().tenant_source
    if text is None:
        raise UsageError(
            "there is no tenant source: set tenant_source in [settings] of tenantcron.toml, see "
            "docs/tenant-source.md"
        )
    return tenant_source(text)


def _answer(source: str, done: SourceRefresh, *, is_check: bool) -> CommandResult:
    plan = done.plan
    is_wrong = bool(done.problems or plan.held or (is_check and not plan.is_empty))

    def show(console: Console) -> None:
        for line in _lines(plan):
            console.print(line, soft_wrap=True)
        for found in done.problems:
            console.print(_problem_line(found), soft_wrap=True)
        for line in _held_lines(plan):
            console.print(line, soft_wrap=True)
        console.print(visible(_summary(source, done, is_check=is_check)), soft_wrap=True)

    return CommandResult(_as_json(source, done, is_check=is_check), show, int(is_wrong))


def _lines(plan: SourcePlan) -> Iterator[Text]:
    for row in plan.new[:_SHOWN]:
        yield Text(f"+ {row.id}", "green")
    for change in plan.changes[:_SHOWN]:
        yield Text(f"~ {change.after.id}", "yellow")
        for column, before, after in differences(change):
            yield Text(visible(f"    {column}: {before or '(none)'} -> {after or '(none)'}"))
    hidden = max(len(plan.new) - _SHOWN, 0) + max(len(plan.changes) - _SHOWN, 0)
    if hidden:
        yield Text(f"  and {hidden} more; --format json shows all", "dim")


def _held_lines(plan: SourcePlan) -> Iterator[Text]:
    if plan.held:
        number = len(plan.held)
        yield Text("error: ", "bold red").append(
            f"{number_of(number, 'tenant')} are missing or lost a valid status at the same time, "
            f"so they were not changed: {', '.join(plan.held[:10])}{', …' if number > 10 else ''}",
            "default",
        )
        yield Text(f"  = if that is correct, add --max-missing {number}", "dim")


def _problem_line(found: SourceProblem) -> Text:
    title = Text("problem: ", "bold red")
    return title.append(visible(f"{found.tenant_id or '(no id)'}: {found.problem}"), "default")


def _summary(source: str, done: SourceRefresh, *, is_check: bool) -> str:
    plan = done.plan
    rows = number_of(done.given, "tenant")
    if plan.is_empty:
        return f"{source}: {rows}, in sync"
    if is_check:
        return f"{source}: {rows}; {len(plan.new)} to register, {len(plan.changes)} to change"
    registered, changed = len(done.registered), len(plan.changes)
    return f"{source}: {rows}; {registered} registered, {changed} changed"


def _as_json(source: str, done: SourceRefresh, *, is_check: bool) -> JsonObject:
    plan = done.plan
    return {
        "source": source,
        "tenants": done.given,
        "applied": not is_check,
        "new": [row.id for row in plan.new],
        "registered": list(done.registered),
        "changes": [_change_as_json(change) for change in plan.changes],
        "held": list(plan.held),
        "problems": [
            {"tenant": found.tenant_id, "problem": found.problem} for found in done.problems
        ],
    }


def _change_as_json(change: PlannedTenantChange) -> JsonObject:
    differing = differences(change)
    return {
        "tenant": change.after.id,
        "changes": [
            {"column": column, "before": before, "after": after}
            for column, before, after in differing
        ],
    }
