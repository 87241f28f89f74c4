"""`tenantcron tenant`: manages tenants."""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console

from tenantcron.cli import tenant_list, tenant_refresh
from tenantcron.cli.columns import Column
from tenantcron.cli.database import acting, current_settings, refused, with_database
from tenantcron.cli.formats.tenants_text import cells, columns
from tenantcron.cli.numbers import DEFAULT, limit
from tenantcron.cli.operating import add_actor, add_format
from tenantcron.cli.tables import output, print_table
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
  tenantcron tenant create acme --schema org_acme    adopt an existing schema
  tenantcron tenant list --label tier=gold --label region
  tenantcron tenant label acme tier=gold region-     region- removes the label
  tenantcron tenant suspend acme --reason "unpaid since October"
  tenantcron tenant refresh --check                  compare with the platform's registry
  tenantcron tenant set acme --max-schedules 50      `default` restores the platform's limit
  tenantcron tenant deprovision acme --reason "contract ended" --drop-schema --confirm acme
"""


_IDENTITY = tuple(map(Column, ("identity", "role", "status")))
# An adopted schema is never dropped, nor is a schema with other objects.
_DROPPED = "drop tenantcron's tables, and the schema if it is empty then"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = "Manage tenants. Every change is recorded in the audit."
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    tenant_refresh.configure(actions.add_parser("refresh", help=tenant_refresh.HELP))
    for name, work in _ACTIONS.items():
        action = actions.add_parser(name, help=work.__doc__, description=work.__doc__)
        if name != "list":
            action.add_argument("id", metavar="ID", type=str, help="tenant id")
        if name == "create":
            help_text = "adopt this schema (default: by schema_pattern)"
            action.add_argument("--schema", metavar="NAME", type=str, help=help_text)
        if name in ("create", "set"):
            for column, lowest in LOWEST_LIMITS.items():
                option = f"--{column.replace('_', '-')}"
                read = limit(lowest, HIGHEST_LIMIT)
                words = f"set this limit: {lowest} to {HIGHEST_LIMIT}, or {DEFAULT}"
                action.add_argument(
                    option, metavar="N", type=read, default=argparse.SUPPRESS, help=words
                )
        _add_labels(action, name)
        if name in ("suspend", "resume", "deprovision"):
            required = name != "resume"
            words = "record this reason"
            action.add_argument(
                "--reason", metavar="TEXT", type=_reason, required=required, help=words
            )
        if name == "deprovision":
            action.add_argument("--drop-schema", action="store_true", help=_DROPPED)
            action.add_argument("--confirm", metavar="ID", help="repeat the id to drop tables")
        if name not in ("list", "show"):
            add_actor(action)
        add_format(action, has_table=True)
        action.set_defaults(run=tenant_list.run if name == "list" else run, work=work)


def _add_labels(action: argparse.ArgumentParser, name: str) -> None:
    if name == "create":
        words, form = "set a label", "KEY=VALUE"
        action.add_argument("--label", metavar=form, action="append", default=[], help=words)
    if name == "list":
        words, form = "filter by label, repeatable", "KEY[=VALUE]"
        action.add_argument("--label", metavar=form, action="append", default=[], help=words)
    if name == "label":
        words = "set a label, or remove it with KEY-"
        action.add_argument("labels", metavar="KEY=VALUE|KEY-", nargs="+", type=str, help=words)


def run(arguments: argparse.Namespace) -> int:
    """Run the action and show its tenants."""
    if "id" in arguments:
        arguments.id = tenant_id(arguments.id)

    async def work(database: Database) -> tuple[Sequence[TenantRow], list[IdentityRow]]:
        found: Sequence[TenantRow] = await arguments.work(database, arguments)
        is_shown = arguments.work is _show_tenant
        await _report_kept_objects(database, arguments, found)
        return found, await find_identities(database, arguments.id) if is_shown else []

    try:
        rows, identities = with_database(work)
    except TenantError as error:
        return refused(error)
    if arguments.format == "json":
        tenants = [{**tenant_as_json(row), **_identities_as_json(identities)} for row in rows]
        print(json.dumps({"tenants": tenants}, indent=2))
    else:
        console = output(is_wide=arguments.wide)
        _show(rows, console)
        if arguments.work is _show_tenant:
            _show_schema(rows[0])
        _show_identities(identities, console)
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


async def _show_tenant(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """show a tenant and its system identities"""
    return [await find_tenant(database, arguments.id)]


async def _suspend(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """suspend a tenant: its schedules start nothing"""
    registry = Registry(database, acting(arguments.actor))
    return [await registry.suspend(arguments.id, arguments.reason)]


async def _resume(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """resume a suspended tenant"""
    registry = Registry(database, acting(arguments.actor))
    return [await registry.resume(arguments.id, arguments.reason)]


async def _deprovision(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """deprovision a tenant; keep its tables unless --drop-schema"""
    if arguments.drop_schema:
        _confirm(arguments)
    registry = Registry(database, acting(arguments.actor))
    drop = arguments.drop_schema
    return [await registry.deprovision(arguments.id, arguments.reason, drop_schema=drop)]


async def _set(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """set the limits of a tenant"""
    limits = _limits(arguments)
    if not limits:
        raise UsageError("nothing to set: give --max-schedules or --max-concurrent")
    return [await Registry(database, acting(arguments.actor)).set_limits(arguments.id, limits)]


async def _label(database: Database, arguments: argparse.Namespace) -> Sequence[TenantRow]:
    """set and remove the labels of a tenant"""
    changes = read_changes(arguments.labels)
    return [await Registry(database, acting(arguments.actor)).change_labels(arguments.id, changes)]


_ACTIONS = {
    "create": _create,
    "list": tenant_list.run,
    "show": _show_tenant,
    "suspend": _suspend,
    "resume": _resume,
    "deprovision": _deprovision,
    "set": _set,
    "label": _label,
}


def _confirm(arguments: argparse.Namespace) -> None:
    """Require the tenant id a second time, from the terminal or as --confirm."""
    typed = arguments.confirm
    if typed is None and sys.stdin.isatty():
        typed = input(f"Type {arguments.id} to drop its schedules and their audit records: ")
    if typed != arguments.id:
        raise UsageError(f"not confirmed, nothing was changed: add --confirm {arguments.id}")


async def _report_kept_objects(
    database: Database, arguments: argparse.Namespace, rows: Sequence[TenantRow]
) -> None:
    """Print the objects that were not dropped, and why."""
    if arguments.work is _deprovision and arguments.drop_schema:
        for row in rows:
            for kept in await find_kept(database, row):
                print(visible(kept), file=sys.stderr)


def _show(rows: Sequence[TenantRow], console: Console) -> None:
    shown = columns(rows)
    print_table(console, shown, [cells(row, shown) for row in rows])


def _show_schema(row: TenantRow) -> None:
    adopted = " (adopted)" if row.schema_adopted else ""
    print(f"schema: {visible(row.schema_name)}{adopted}")


def _show_identities(identities: Sequence[IdentityRow], console: Console) -> None:
    if identities:
        print()
        print_table(console, _IDENTITY, [(row.id, row.role, row.status) for row in identities])


def _identities_as_json(identities: Sequence[IdentityRow]) -> JsonObject:
    """Return the identities; only `show` has them, to keep lists short."""
    if not identities:
        return {}
    shown: list[JsonValue] = [
        {"id": row.id, "role": row.role, "status": row.status.value} for row in identities
    ]
    return {"identities": shown}
