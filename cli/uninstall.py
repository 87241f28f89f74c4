"""`tenantcron uninstall`: removes tenantcron from a database."""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence

from tenantcron.cli.clusters.choice import database_only
from tenantcron.cli.environment import current_settings
from tenantcron.cli.operating import add_database
from tenantcron.cli.report import progress
from tenantcron.cli.responding import declined
from tenantcron.core.errors import UsageError
from tenantcron.core.words import listed, number_of, visible
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.rows.tenants import TenantRow
from tenantcron.store.schema.api_role import NAME
from tenantcron.tenants.errors import TenantError
from tenantcron.tenants.installation import (
    Installation,
    UninstallError,
    find_installation,
    remove,
)

_EXAMPLES = """\
examples:
  tenantcron uninstall                        show the objects to drop
  tenantcron uninstall --yes --with-tenants   drop them: schedules, history, audit
"""
_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Remove tenantcron from the database: its schema and all tenant tables."
    parser.epilog = _EXAMPLES
    parser.add_argument("--yes", action="store_true", help="drop the objects; default: only show")
    parser.add_argument(
        "--with-tenants", action="store_true", help="drop them even if there are tenants"
    )
    parser.add_argument(
        "--with-replicas", action="store_true", help="drop them even if schedulers are running"
    )
    add_database(parser)
    parser.set_defaults(run=database_only(run))


def run(arguments: argparse.Namespace) -> int:
    """Show the objects to remove, and remove them if confirmed."""
    settings = current_settings()
    if settings.database_url is None:
        raise UsageError("remove the embedded database with its directory: rm -r .tenantcron")
    try:
        return asyncio.run(_run(arguments))
    except (UninstallError, TenantError) as error:
        return declined(error)


async def _run(arguments: argparse.Namespace) -> int:
    async with open_database(current_settings()) as database:
        found = await find_installation(database)
        if found is None:
            print("tenantcron is not installed in this database")
            return 0
        for line in _drops(found):
            print(visible(line))
        problems = _problems(found, arguments)
        for problem in problems:
            print(f"error: {problem}", file=sys.stderr)
        if problems:
            return 1
        await _remove(database, found)
        return 0


def _drops(found: Installation) -> Iterator[str]:
    yield "drops the schema `tenantcron`: definitions, history, limits, tokens and audit"
    if found.tenants:
        schemas = number_of(len(found.tenants), "schema")
        yield f"drops 3 tables in each of {schemas}: {_names(found.tenants)}"
    created = [row for row in found.tenants if not row.schema_adopted]
    if created:
        yield f"drops the schemas that it created, if they are empty then: {_names(created)}"
    if found.roles:
        yield f"drops the handler roles of {number_of(found.roles, 'tenant')}"
    if found.has_role:
        yield f"drops the role `{NAME}` if no other database of the server uses it"


def _names(rows: Sequence[TenantRow]) -> str:
    return listed([row.schema_name for row in rows], _SHOWN)


def _problems(found: Installation, arguments: argparse.Namespace) -> list[str]:
    problems = []
    if found.replicas and not arguments.with_replicas:
        problems.append(
            f"schedulers are running: {found.replicas}. Stop them first, or add --with-replicas"
        )
    if found.tenants and not arguments.with_tenants:
        problems.append(
            f"tenants have tables here: {len(found.tenants)}. Deprovision them with "
            "--drop-schema, or add --with-tenants"
        )
    if not arguments.yes:
        problems.append("nothing was dropped: add --yes")
    return problems


async def _remove(database: Database, found: Installation) -> None:
    with progress("Removing", len(found.tenants)) as step:
        kept = await remove(database, found, step)
    print("tenantcron is removed from this database")
    for role in kept[:_SHOWN]:
        print(visible(f"the role `{role.name}` is kept: {role.reason}"))
    if len(kept) > _SHOWN:
        print(f"{len(kept) - _SHOWN} more roles are kept")
    for role in kept[:_SHOWN]:
        print(visible(f'  DROP ROLE "{role.name}";  -- once nothing on the server uses it'))
