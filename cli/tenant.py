"""`tenantcron tenant`: manages tenants."""

import argparse
import sys

from rich.console import Console

from tenantcron.cli import tenant_list, tenant_refresh
from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.columns import Column
from tenantcron.cli.formats.tenants_text import QUOTA_COLUMNS, cells, columns, quota_rows
from tenantcron.cli.numbers import DEFAULT, limit
from tenantcron.cli.operating import add_actor, add_cluster, add_format
from tenantcron.cli.responding import CommandResult, respond
from tenantcron.cli.tables import print_table
from tenantcron.cli.watching import add_watch
from tenantcron.core.errors import UsageError
from tenantcron.core.labels import read_changes
from tenantcron.core.names import tenant_id
from tenantcron.core.quotas import parse_quota
from tenantcron.core.schema_names import schema_name
from tenantcron.core.tenant_limits import LIMIT_RANGES
from tenantcron.core.words import visible
from tenantcron.service.responses.shapes import TenantResponse

_EXAMPLES = """\
examples:
  tenantcron tenant create acme --max-concurrent 10
  tenantcron tenant create acme --schema org_acme    adopt an existing schema
  tenantcron tenant list --label tier=gold --label region
  tenantcron tenant label acme tier=gold region-     region- removes the label
  tenantcron tenant suspend acme --reason "unpaid since October"
  tenantcron tenant refresh --check                  compare with the platform's registry
  tenantcron tenant set acme --max-schedules 50      `default` restores the platform's limit
  tenantcron tenant set acme --weight 3              three times the share of scarce slots
  tenantcron tenant set acme --quota pending_tasks=20000 --quota stored_bytes=4GiB
  tenantcron tenant deprovision acme --reason "contract ended" --drop-schema --confirm acme
"""


_LIMITS = {
    "max_schedules": "set this limit",
    "max_concurrent": "set this limit",
    "weight": "set the share of scarce slots",
}
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
            form = "ID" if name == "create" else "TENANT"
            action.add_argument("id", metavar=form, type=tenant_id, help="tenant id")
        if name == "create":
            help_text = "adopt this schema (default: by schema_pattern)"
            action.add_argument("--schema", metavar="NAME", type=schema_name, help=help_text)
        if name in ("create", "set"):
            for column, (lowest, highest) in LIMIT_RANGES.items():
                option = f"--{column.replace('_', '-')}"
                read = limit(lowest, highest)
                words = f"{_LIMITS[column]}: {lowest} to {highest}, or {DEFAULT}"
                action.add_argument(
                    option, metavar="N", type=read, default=argparse.SUPPRESS, help=words
                )
            action.add_argument(
                "--quota",
                metavar="NAME=N",
                action="append",
                default=[],
                help=f"set a quota, or restore it with NAME={DEFAULT}",
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
        add_cluster(action)
        add_format(action, has_table=True, listing="tenants" if name == "list" else None)
        if name in ("list", "show"):
            add_watch(action)
        run = tenant_list.run if name == "list" else respond
        action.set_defaults(run=run, work=work, removes=name == "deprovision")


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


def _reason(text: str) -> str:
    return visible(text)


def _limits(arguments: argparse.Namespace) -> dict[str, int | None]:
    given = vars(arguments)
    return {name: given[name] for name in LIMIT_RANGES if name in given}


def _quotas(arguments: argparse.Namespace) -> dict[str, int | None]:
    return dict(map(parse_quota, arguments.quota))


async def _create(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """create a tenant, with a new schema or an adopted one"""
    labels = read_changes(arguments.label, removing=False)
    limits, quotas = _limits(arguments), _quotas(arguments)
    done = await cluster.tenants.create(arguments.id, limits, quotas, labels, arguments.schema)
    return _result(done)


async def _show_tenant(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """show a tenant, its quotas and its system identities"""
    tenant = await cluster.tenants.show(arguments.id)
    adopted = " (adopted)" if tenant["schema_adopted"] else ""
    identities = tenant.get("identities", [])

    def show(console: Console) -> None:
        _print(tenant, console)
        print(f"schema: {visible(tenant['schema'])}{adopted}")
        print()
        print_table(console, QUOTA_COLUMNS, quota_rows(tenant))
        if identities:
            print()
            rows = [(row["id"], row["role"], row["status"]) for row in identities]
            print_table(console, _IDENTITY, rows)

    return CommandResult({"tenants": [tenant]}, show)


async def _suspend(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """suspend a tenant: its schedules start nothing"""
    return _result(await cluster.tenants.suspend(arguments.id, arguments.reason))


async def _resume(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """resume a suspended tenant"""
    return _result(await cluster.tenants.resume(arguments.id, arguments.reason))


async def _deprovision(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """deprovision a tenant; keep its tables unless --drop-schema"""
    if arguments.drop_schema:
        _confirm(arguments)
    done = await cluster.tenants.deprovision(
        arguments.id, arguments.reason, drop_schema=arguments.drop_schema
    )
    for kept in done["kept"]:
        print(visible(kept), file=sys.stderr)
    return _result(done)


async def _set(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """set the limits, the quotas and the weight of a tenant"""
    limits, quotas = _limits(arguments), _quotas(arguments)
    if not limits and not quotas:
        raise UsageError(
            "nothing to set: give --max-schedules, --max-concurrent, --weight or --quota"
        )
    return _result(await cluster.tenants.set_limits(arguments.id, limits, quotas))


async def _label(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """set and remove the labels of a tenant"""
    changes = read_changes(arguments.labels)
    return _result(await cluster.tenants.set_labels(arguments.id, changes))


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


def _result(tenant: TenantResponse) -> CommandResult:
    return CommandResult({"tenants": [tenant]}, lambda console: _print(tenant, console))


def _print(tenant: TenantResponse, console: Console) -> None:
    shown = columns([tenant])
    print_table(console, shown, [cells(tenant, shown)])
