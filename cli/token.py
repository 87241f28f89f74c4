"""`tenantcron token`: manages API tokens."""

import argparse
from collections.abc import Mapping
from datetime import timedelta

from rich.console import Console
from rich.text import Text

from tenantcron.actor.api_tokens import make_token
from tenantcron.actor.grants import Grant, Role
from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.database import acting
from tenantcron.cli.operating import CommandResult, add_actor, add_format, respond
from tenantcron.cli.tables import print_table
from tenantcron.core.durations import parse_duration
from tenantcron.core.errors import UsageError
from tenantcron.core.names import NAME_EXPECTED, is_name
from tenantcron.core.words import in_utc
from tenantcron.scheduler.inspect.schedule_status import UnknownError, existing_tenant
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.service.responses.executions import iso
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import api_tokens, audit_records
from tenantcron.store.rows.api_tokens import TokenRow
from tenantcron.tenants.registry import tenant_id

_EXAMPLES = """\
examples:
  tenantcron token create ci --role deployer --tenant acme --expires-in 90d
  tenantcron token create dashboard --role viewer
  tenantcron token list
  tenantcron token revoke 0k3v9x2m4p1q
"""
_COLUMNS = (
    Column("id"),
    Column("name", Fit.NAME),
    Column("role"),
    Column("tenant", Fit.NAME),
    Column("expires"),
    Column("revoked"),
)
_LONGEST_LIFE = timedelta(days=366)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = (
        "Create, list and revoke API tokens. Every change is recorded in the audit."
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a token, which is shown once and not stored")
    create.add_argument("name", metavar="NAME", type=_name, help="name of its user, for the audit")
    roles = [role.value for role in Role]
    create.add_argument("--role", choices=roles, required=True, help="grant this role")
    create.add_argument("--tenant", metavar="T", type=tenant_id, help="restrict it to this tenant")
    create.add_argument(
        "--expires-in",
        metavar="TIME",
        type=_life,
        default=timedelta(days=90),
        help="let it expire after TIME (90d)",
    )
    revoke = actions.add_parser("revoke", help="revoke a token permanently")
    revoke.add_argument("id", metavar="ID", help="token id, the part between the underscores")
    listing = actions.add_parser("list", help="list all tokens without their secrets")
    for action, work in ((create, _create), (revoke, _revoke), (listing, _list)):
        if action is not listing:
            add_actor(action)
        add_format(action, has_table=action is listing)
        action.set_defaults(run=respond, work=work)


def _name(text: str) -> str:
    if not is_name(text):
        raise UsageError(f"{text!a} is not {NAME_EXPECTED}")
    return text


def _life(text: str) -> timedelta:
    span = parse_duration(text)
    if not timedelta(0) < span <= _LONGEST_LIFE:
        raise UsageError(f"--expires-in {text!r} is not a duration of at most 366 days")
    return span


async def _create(database: Database, arguments: argparse.Namespace) -> CommandResult:
    new, who = make_token(), acting(arguments.actor)
    grant = Grant(Role(arguments.role), arguments.tenant)
    async with database.transaction() as connection:
        await audit_records.act(connection, who)
        if grant.tenant is not None:
            await existing_tenant(connection, grant.tenant)
        row = await api_tokens.add(
            connection,
            new,
            name=arguments.name,
            grant=grant,
            created_by=who.changed_by,
            lives=arguments.expires_in,
        )
    if row is None:
        raise OperationError(
            f"a token `{arguments.name}` exists: revoke it first, or use another name"
        )

    def show(console: Console) -> None:
        console.print(new.text, soft_wrap=True)
        console.print(Text("store it safely: it is not shown again", "dim"))

    return CommandResult({**_as_json(row), "token": new.text}, show)


async def _list(database: Database, _: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        rows = await api_tokens.list_all(connection)

    def show(console: Console) -> None:
        if rows:
            print_table(console, _COLUMNS, [_cells(row) for row in rows])
        else:
            console.print("no tokens yet: `tenantcron token create NAME --role R`")

    return CommandResult({"tokens": [_as_json(row) for row in rows]}, show)


def _cells(row: TokenRow) -> tuple[str, ...]:
    revoked = in_utc(row.revoked_at) if row.revoked_at else ""
    tenant = row.grant.tenant or "all"
    return row.id, row.name, row.grant.role, tenant, in_utc(row.expires_at), revoked


async def _revoke(database: Database, arguments: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        await audit_records.act(connection, acting(arguments.actor))
        row = await api_tokens.revoke(connection, arguments.id)
    if row is None:
        raise UnknownError(f"there is no token {arguments.id!a}: `tenantcron token list` shows all")

    def show(console: Console) -> None:
        console.print(f"token {row.id} ({row.name}) is revoked", soft_wrap=True)

    return CommandResult(_as_json(row), show)


def _as_json(row: TokenRow) -> Mapping[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.grant.role.value,
        "tenant": row.grant.tenant,
        "created_by": row.created_by,
        "created_at": row.created_at.isoformat(),
        "expires_at": row.expires_at.isoformat(),
        "revoked_at": iso(row.revoked_at),
    }
