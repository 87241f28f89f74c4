"""`tenantcron migrate --sql`: prints the statements of a migration without running them."""

import argparse
import asyncio
import sys

from tenantcron.cli.environment import current_settings
from tenantcron.cli.responding import declined
from tenantcron.core.errors import UsageError
from tenantcron.core.names import tenant_id
from tenantcron.core.schema_names import schema_name
from tenantcron.core.settings import Settings
from tenantcron.core.words import visible
from tenantcron.migrations.pending import pending_control, pending_tenants
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.tenants.errors import TenantError
from tenantcron.tenants.scripts import tenant_sql

_NOTHING = "-- There is nothing to migrate."


def run(arguments: argparse.Namespace) -> int:
    """Print a script; return 1 if a tenant's schema cannot be migrated."""
    if arguments.schema is not None and arguments.tenant is None:
        raise UsageError("--schema is the schema of a new tenant: add --tenant ID")
    try:
        return asyncio.run(_run(arguments, current_settings()))
    except TenantError as error:
        return declined(error)


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    async with open_database(settings) as database:
        if arguments.tenant is None:
            return await _print_all(database)
        schema = None if arguments.schema is None else schema_name(arguments.schema)
        tenant, pattern = tenant_id(arguments.tenant), settings.schema_pattern
        print(await tenant_sql(database, tenant, schema, pattern) or _NOTHING)
        return 0


async def _print_all(database: Database) -> int:
    """Print the statements for the control schema, then those for each tenant."""
    control = await pending_control(database)
    if control is not None:
        print(control)
    printed, broken = int(control is not None), 0
    async for tenant, script in pending_tenants(database):
        if script is None:
            broken += 1
            print(f"failed {tenant.tenant}: {visible(tenant.broken or '')}", file=sys.stderr)
        else:
            printed += 1
            print(script)
    if not printed:
        print(_NOTHING)
    return int(broken > 0)
