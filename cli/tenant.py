"""`tenantcron tenant`: creates, shows and changes tenants."""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.text import Text

from tenantcron.cli import tenant_list, tenant_refresh
from tenantcron.cli.columns import lines
from tenantcron.cli.database import acting, current_settings, refused, with_database
from tenantcron.cli.formats.tenants_text import cells, titles
from tenantcron.cli.numbers import limit
from tenantcron.cli.tables import columns_available, output, plain_table
from tenantcron.cli.terminal import Palette
from tenantcron.core.errors import UsageError
from tenantcron.core.labels import read_changes
from tenantcron.core.schema_names import schema_name
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import visible
from tenantcron.service.responses.tenants import tenant_as_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.identities import IdentityRow
from tenantcron.store.rows.tenants import HIGHEST_LIMIT, LOWEST_LIMITS, TenantLimits, TenantRow
from tenantcron.tenants.errors import TenantError
from tenantcron.tenants.registry import (
    Registry,
    find_identities,
    find_kept,
    find_tenant,
    tenant_id,
)

_EXAMPLES = """\
examples:
  tenantcron tenant create acme --max-concurrent 10
  tenantcron tenant create acme --schema org_acme    adopt a schema that is there
  tenantcron tenant list --label tier=gold --label region
  tenantcron tenant label acme tier=gold region-     region- removes the label
  tenantcron tenant suspend acme --reason "unpaid since October"
  tenantcron tenant refresh --check                  compare with the platform's registry
  tenantcron tenant set acme --max-schedules 50      --max-schedules default: the platform's again
  tenantcron tenant deprovision acme --reason "contract ended" --drop-schema --confirm acme
"""


# An adopted schema is never dropped, nor is one with anything else in it.
_DROPPED = "drop tenantcron's tables, and the schema if then empty"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = "Create, show and change tenants; every change is put on record."
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    tenant_refresh.configure(actions.add_parser("refresh", help=tenant_refresh.HELP))
    for name, work in _ACTIONS.items():
        action = actions.add_parser(name, help=work.__doc__, description=work.__doc__)
        if name != "list":
            action.add_argument("id", metavar="ID", type=str)
        if name == "create":
            help_text = "adopt this schema (default: by schema_pattern)"
            action.add_argument("--schema", metavar="NAME", type=str, help=help_text)
        if name in ("create", "set"):
            for column, lowest in LOWEST_LIMITS.items():
                option = f"--{column.replace('_', '-')}"
                read = limit(lowest, HIGHEST_LIMIT)
                action.add_argument(option, metavar="N", type=read, default=argparse.SUPPRESS)
        _add_labels(action, name)
        if name in ("suspend", "resume", "deprovision"):
            required = name != "resume"
            action.add_argument("--reason", metavar="TEXT", type=_reason, required=required)
        if name == "deprovision":
            action.add_argument("--drop-schema", action="store_true", help=_DROPPED)
            action.add_argument("--confirm", metavar="ID", help="the id again, to drop tables")
        if name not in ("list", "show"):
            action.add_argument("--actor", metavar="ID", help="who does it (default: login)")
        action.add_argument("--format", choices=["text", "json"], default="text")
        action.set_defaults(run=tenant_list.run if name == "list" else run, work=work)


def _add_labels(action: argparse.ArgumentParser, name: str) -> None:
    if name == "create":
        words, form = "set a label", "KEY=VALUE"
        action.add_argument("--label", metavar=form, action="append", default=[], help=words)
    if name == "list":
        words, form = "only tenants with this label", "KEY[=VALUE]"
        action.add_argument("--label", metavar=form, action="append", default=[], help=words)
    if name == "label":
        action.add_argument("labels", metavar="KEY=VALUE|KEY-", nargs="+", type=str)


def run(arguments: argparse.Namespace) -> int:
    """Carry the action out and show the tenants that it concerns."""
    if "id" in arguments:
        arguments.id = tenant_id(arguments.id)

    async def work(database: Database) -> tuple[Sequence[TenantRow], list[IdentityRow]]:
        found: Sequence[TenantRow] = await arguments.work(database, arguments)
        is_shown = arguments.work is _show_one
        await _say_what_is_kept(database, arguments, found)
        return found, await find_identities(database, arguments.id) if is_shown else []

    try:
        rows, identities = with_database(work)
    except TenantError as error:
        return refused(error)
    if arguments.format == "json":
        tenants = [{**tenant_as_json(row), **_identities_as_json(identities)} for row in rows]
        print(json.dumps({"tenants": tenants}, indent=2))
    else:
        _show(rows)
        if arguments.work is _show_one:
            _show_schema(rows[0])
        _show_identities(identities)
    return 0


def _reason(text: str) -> str:
    return visible(text)


def _limits(arguments: argparse.Namespace) -> TenantLimits:
    limits = TenantLimits()
    if "max_schedules" in arguments:
        limits["max_schedules"] = arguments.max_schedules
    if "max_concurrent" in arguments:
        limits["max_concurrent"] = arguments.max_concurrent
    return limits


async def _create(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """create a tenant, with a new schema or an adopted one"""
    registry = Registry(database, acting(arguments.actor))
    schema = None if arguments.schema is None else schema_name(arguments.schema)
    labels = read_changes(arguments.label, removing=False)
    pattern = current_settings().schema_pattern
    limits = _limits(arguments)
    created = await registry.create(
        arguments.id, limits, labels=labels, schema=schema, pattern=pattern
    )
    return [created]


async def _show_one(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """show one tenant and its system identities"""
    return [await find_tenant(database, arguments.id)]


async def _suspend(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """keep a tenant's schedules from starting anything"""
    registry = Registry(database, acting(arguments.actor))
    return [await registry.suspend(arguments.id, arguments.reason)]


async def _resume(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """let a tenant's schedules start again"""
    registry = Registry(database, acting(arguments.actor))
    return [await registry.resume(arguments.id, arguments.reason)]


async def _deprovision(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """end a tenant's life; its tables are kept unless --drop-schema"""
    if arguments.drop_schema:
        _confirm(arguments)
    registry = Registry(database, acting(arguments.actor))
    drop = arguments.drop_schema
    return [await registry.deprovision(arguments.id, arguments.reason, drop_schema=drop)]


async def _set(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """give a tenant limits of its own"""
    limits = _limits(arguments)
    if not limits:
        raise UsageError("nothing to set: give --max-schedules or --max-concurrent")
    return [await Registry(database, acting(arguments.actor)).set_limits(arguments.id, limits)]


async def _label(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """set and remove labels of a tenant"""
    changes = read_changes(arguments.labels)
    return [await Registry(database, acting(arguments.actor)).change_labels(arguments.id, changes)]


_ACTIONS = {
    "create": _create,
    "list": tenant_list.run,
    "show": _show_one,
    "suspend": _suspend,
    "resume": _resume,
    "deprovision": _deprovision,
    "set": _set,
    "label": _label,
}


def _confirm(arguments: argparse.Namespace) -> None:
    """Dropping tables takes the tenant's id twice, typed on a terminal or given as --confirm."""
    typed = arguments.confirm
    if typed is None and sys.stdin.isatty():
        typed = input(f"Type {arguments.id} to drop its schedules with their audit: ")
    if typed != arguments.id:
        raise UsageError(f"not confirmed, nothing was done: add --confirm {arguments.id}")


async def _say_what_is_kept(
    database: Database, arguments: argparse.Namespace, rows: Sequence[TenantRow]
) -> None:
    """Explain what is still there although it was to be dropped."""
    if arguments.work is _deprovision and arguments.drop_schema:
        for row in rows:
            for kept in await find_kept(database, row):
                print(visible(kept), file=sys.stderr)


def _show(rows: Sequence[TenantRow]) -> None:
    paint = Palette(sys.stdout)
    shown = titles(rows)
    for line in lines(shown, [cells(row, shown) for row in rows], paint, columns_available()):
        print(line)


def _show_schema(row: TenantRow) -> None:
    adopted = " (adopted)" if row.schema_adopted else ""
    print(f"schema: {visible(row.schema_name)}{adopted}")


def _show_identities(identities: Sequence[IdentityRow]) -> None:
    if identities:
        table = plain_table("identity", "role", "status")
        for one in identities:
            table.add_row(*(Text(visible(cell)) for cell in (one.id, one.role, one.status)))
        output().print()
        output().print(table)


def _identities_as_json(identities: Sequence[IdentityRow]) -> JsonObject:
    """Only where one tenant is shown: a list of all would be mostly identities."""
    if not identities:
        return {}
    shown: list[JsonValue] = [
        {"id": one.id, "role": one.role, "status": one.status.value} for one in identities
    ]
    return {"identities": shown}
