"""`tenantcron migrate`: migrates the control schema and all tenant schemas."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tenantcron.cli import migrate_check, migrate_sql
from tenantcron.cli.clusters.choice import database_only
from tenantcron.cli.environment import current_settings
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import add_database
from tenantcron.cli.server_identity import unverified_server
from tenantcron.cli.terminal import Palette
from tenantcron.core.errors import UsageError
from tenantcron.core.values import JsonObject
from tenantcron.core.words import visible
from tenantcron.migrations.outcome import MigrationOutcome, TenantMigrationState, TenantOutcome
from tenantcron.migrations.runner import OnProgress, migrate
from tenantcron.store.connection.engine import open_database

_EXAMPLES = """\
examples:
  tenantcron migrate                    run it before each rollout; running it again is safe
  tenantcron migrate --concurrency 8    migrate more tenants at a time
  tenantcron migrate --format json
  tenantcron migrate --sql | psql -v ON_ERROR_STOP=1    run the statements as another role
  tenantcron migrate --sql --tenant acme --schema org_acme
  tenantcron migrate --check                            exit code 1 if a schema differs
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Migrate the control schema and the schemas of all tenants to this version."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--concurrency",
        type=number(1, 10),
        default=4,
        metavar="N",
        help="migrate N tenants at a time, 1 to 10 (4)",
    )
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="set the output format (text)"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--sql", action="store_true", help="print the SQL without running it")
    instead.add_argument("--check", action="store_true", help="compare only, change nothing")
    parser.add_argument(
        "--tenant", metavar="ID", help="print the SQL of this tenant, new or existing"
    )
    parser.add_argument("--schema", metavar="NAME", help="use this schema for a new tenant")
    add_database(parser)
    parser.set_defaults(run=database_only(run))


def run(arguments: argparse.Namespace) -> int:
    """Migrate and report; return 1 if the migration of a tenant failed."""
    if arguments.sql:
        return migrate_sql.run(arguments)
    if arguments.tenant is not None or arguments.schema is not None:
        raise UsageError("--tenant and --schema require --sql")
    if arguments.check:
        return migrate_check.run(arguments)
    outcome = asyncio.run(_migrate(arguments.concurrency))
    if arguments.format == "json":
        print(json.dumps(_as_json(outcome), indent=2))
    else:
        _show(outcome)
    return int(bool(outcome.failed))


async def _migrate(concurrency: int) -> MigrationOutcome:
    settings = current_settings()
    if warning := unverified_server(settings):
        print(warning, file=sys.stderr)
    async with open_database(settings) as database:
        with _progress() as on_progress:
            return await migrate(database, on_progress=on_progress, concurrency=concurrency)


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Show a progress bar if stderr is a terminal."""
    columns = (TextColumn("Migrating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not _watched()) as bar:
        task = bar.add_task("tenants", total=None)

        def advance(_: TenantOutcome, total: int) -> None:
            bar.update(task, advance=1, total=total)

        yield advance


def _watched() -> bool:
    return sys.stderr.isatty()


def _as_json(outcome: MigrationOutcome) -> JsonObject:
    return {
        "control": {"from": outcome.control.before, "to": outcome.control.after},
        "tenants": {
            "migrated": outcome.count(TenantMigrationState.MIGRATED),
            "current": outcome.count(TenantMigrationState.CURRENT),
            "failed": [
                {"tenant": failed.tenant, "error": failed.error} for failed in outcome.failed
            ],
        },
    }


def _show(outcome: MigrationOutcome) -> None:
    paint = Palette(sys.stdout)
    print(_control_line(outcome))
    for failed in outcome.failed:
        print(f"{paint('error', 'failed')} {failed.tenant}: {visible(failed.error or '')}")
    print(_summary(outcome))
    if outcome.failed:
        print("Fix the cause and run `tenantcron migrate` again; it migrates only these tenants.")


def _control_line(outcome: MigrationOutcome) -> str:
    control = outcome.control
    if control.before == control.after:
        return f"control schema: current ({control.after})"
    return f"control schema: {control.before or 'new'} -> {control.after}"


def _summary(outcome: MigrationOutcome) -> str:
    migrated, current = (
        outcome.count(TenantMigrationState.MIGRATED),
        outcome.count(TenantMigrationState.CURRENT),
    )
    return f"tenants: {migrated} migrated, {current} current, {len(outcome.failed)} failed"
