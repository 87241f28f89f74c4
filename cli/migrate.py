"""`tenantcron migrate`: brings the control schema and all tenant schemas up to date."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tenantcron.cli import migrate_check, migrate_sql
from tenantcron.cli.numbers import number
from tenantcron.cli.server_identity import unverified_server
from tenantcron.cli.terminal import Palette
from tenantcron.core.errors import UsageError
from tenantcron.core.settings import load_settings
from tenantcron.core.values import JsonObject
from tenantcron.core.words import visible
from tenantcron.migrations.outcome import MigrationOutcome, TenantMigrationState, TenantOutcome
from tenantcron.migrations.runner import OnProgress, migrate
from tenantcron.store.connection.engine import open_database

_EXAMPLES = """\
examples:
  tenantcron migrate                    before a new version is rolled out; running it again is safe
  tenantcron migrate --concurrency 8    more tenants at a time
  tenantcron migrate --format json
  tenantcron migrate --sql | psql -v ON_ERROR_STOP=1    let another role run it
  tenantcron migrate --sql --tenant acme --schema org_acme
  tenantcron migrate --check                            exit code 1 if anything differs
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Bring the control schema and the schemas of all tenants up to date."
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--concurrency", type=number(1, 10), default=4, metavar="N", help="1 to 10, default: 4"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--sql", action="store_true", help="print the statements, run nothing")
    instead.add_argument("--check", action="store_true", help="compare, and change nothing")
    parser.add_argument("--tenant", metavar="ID", help="with --sql: this tenant, new or not")
    parser.add_argument("--schema", metavar="NAME", help="with --sql --tenant: its schema")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Migrate and report; 1 if a tenant could not be brought up to date."""
    if arguments.sql:
        return migrate_sql.run(arguments)
    if arguments.tenant is not None or arguments.schema is not None:
        raise UsageError("--tenant and --schema go with --sql")
    if arguments.check:
        return migrate_check.run(arguments)
    outcome = asyncio.run(_migrate(arguments.concurrency))
    if arguments.format == "json":
        print(json.dumps(_as_json(outcome), indent=2))
    else:
        _show(outcome)
    return int(bool(outcome.failed))


async def _migrate(concurrency: int) -> MigrationOutcome:
    settings = load_settings(os.environ, Path.cwd())
    if warning := unverified_server(settings):
        print(warning, file=sys.stderr)
    async with open_database(settings) as database:
        with _progress() as on_progress:
            return await migrate(database, on_progress=on_progress, concurrency=concurrency)


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """A bar on a terminal, nothing elsewhere."""
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
            "failed": [{"tenant": one.tenant, "error": one.error} for one in outcome.failed],
        },
    }


def _show(outcome: MigrationOutcome) -> None:
    paint = Palette(sys.stdout)
    print(_control_line(outcome))
    for one in outcome.failed:
        print(f"{paint('error', 'failed')} {one.tenant}: {visible(one.error or '')}")
    print(_summary(outcome))
    if outcome.failed:
        print("Run `tenantcron migrate` again when it is mended: only what is missing is done.")


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
