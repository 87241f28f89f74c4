"""`tenantcron schedule`: shows the schedules of tenants as they are in the database."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from tenantcron.cli.database import refused, with_database
from tenantcron.cli.formats.outcomes import schedule
from tenantcron.cli.formats.outcomes_text import next_executions
from tenantcron.cli.tables import output
from tenantcron.cli.terminal import visible
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.reconciler.outcome import live_schedules
from tenantcron.reconciler.state import TenantState, database_time, read_states
from tenantcron.store.engine import Database
from tenantcron.tenants.registry import TenantError, find_tenant, list_tenants, tenant_id

_EXAMPLES = """\
examples:
  tenantcron schedule list acme
  tenantcron schedule list --format json        of all tenants
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = "Show the schedules of tenants as they are in the database."
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list schedules with their next executions")
    listing.add_argument("tenant", nargs="?", metavar="TENANT", help="default: all tenants")
    listing.add_argument("--format", choices=["text", "json"], default="text")
    listing.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the schedules; 1 if those of a tenant cannot be read."""

    async def work(database: Database) -> Listing:
        return await _read(database, arguments.tenant)

    try:
        listing = with_database(work)
    except TenantError as error:
        return refused(error)
    if arguments.format == "json":
        print(json.dumps(_as_json(listing), indent=2))
    else:
        _show(listing)
    return int(any(state.broken for state in listing.states.values()))


@dataclass(frozen=True, slots=True)
class Listing:
    """Tenants as they are now."""

    states: Mapping[TenantId, TenantState]
    now: datetime


async def _read(database: Database, tenant: str | None) -> Listing:
    if tenant is None:
        tenants = [row.id for row in await list_tenants(database)]
    else:
        tenants = [(await find_tenant(database, tenant_id(tenant))).id]
    async with database.transaction() as connection:
        now = await database_time(connection)
    return Listing(await read_states(database, tenants), now)


def _as_json(listing: Listing) -> JsonObject:
    return {
        "schedules": [
            {"tenant": tenant, **schedule(one)}
            for tenant, state in listing.states.items()
            for one in live_schedules(state, listing.now)
        ],
        "failed": [
            {"tenant": tenant, "error": state.broken}
            for tenant, state in listing.states.items()
            if state.broken
        ],
    }


def _show(listing: Listing) -> None:
    console = output()
    for tenant, state in listing.states.items():
        console.print(Text(tenant, "bold"))
        if state.broken:
            console.print(Text(visible(f"  cannot be read: {state.broken}"), "red"))
        elif state.live:
            console.print(next_executions(live_schedules(state, listing.now), listing.now))
        else:
            console.print("  no schedules")
