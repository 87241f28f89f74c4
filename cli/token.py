"""`tenantcron token`: manages API tokens."""

import argparse
from datetime import timedelta

from rich.console import Console
from rich.text import Text

from tenantcron.actor.api_tokens import id_within
from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.moments import utc
from tenantcron.cli.operating import add_actor, add_cluster, add_format
from tenantcron.cli.responding import CommandResult, respond
from tenantcron.cli.tables import print_table
from tenantcron.core.errors import NotFoundError, UsageError
from tenantcron.core.names import NAME_EXPECTED, is_name, tenant_id
from tenantcron.core.token_lives import DEFAULT_LIFE, token_life
from tenantcron.service.responses.platform_shapes import ROLES, TokenResponse

_EXAMPLES = """\
examples:
  tenantcron token create ci --role deployer --tenant acme --expires-in 90d
  tenantcron token create dashboard --role viewer
  tenantcron token create shop --role submitter --tenant acme    submits tasks
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = (
        "Create, list and revoke API tokens. Every change is recorded in the audit."
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a token, which is shown once and not stored")
    create.add_argument("name", metavar="NAME", type=_name, help="name of its user, for the audit")
    words = f"grant {', '.join(ROLES[:-1])} or {ROLES[-1]}"
    create.add_argument("--role", metavar="ROLE", choices=ROLES, required=True, help=words)
    create.add_argument("--tenant", metavar="T", type=tenant_id, help="restrict it to this tenant")
    create.add_argument(
        "--expires-in",
        metavar="TIME",
        type=_life,
        default=DEFAULT_LIFE,
        help="let it expire after TIME (90d)",
    )
    revoke = actions.add_parser("revoke", help="revoke a token permanently")
    revoke.set_defaults(removes=True)
    revoke.add_argument("token", metavar="ID", help="token id, or the name of a valid token")
    listing = actions.add_parser("list", help="list all tokens without their secrets")
    for action, work in ((create, _create), (revoke, _revoke), (listing, _list)):
        if action is not listing:
            add_actor(action)
        add_cluster(action)
        is_list = action is listing
        add_format(action, has_table=is_list, listing="tokens" if is_list else None)
        action.set_defaults(run=respond, work=work)


def _name(text: str) -> str:
    if not is_name(text):
        raise UsageError(f"{text!a} is not {NAME_EXPECTED}")
    return text


def _life(text: str) -> timedelta:
    return token_life(text, "--expires-in")


async def _create(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    created = await cluster.tokens.create(
        arguments.name, arguments.role, arguments.tenant, arguments.expires_in
    )

    def show(console: Console) -> None:
        console.print(created["token"], soft_wrap=True)
        console.print(Text("store it safely: it is not shown again", "dim"))

    return CommandResult(created, show)


async def _list(cluster: ClusterAccess, _: argparse.Namespace) -> CommandResult:
    found = await cluster.tokens.list_all()

    def show(console: Console) -> None:
        if found["tokens"]:
            print_table(console, _COLUMNS, [_cells(token) for token in found["tokens"]])
        else:
            console.print("no tokens yet: `tenantcron token create NAME --role R`")

    return CommandResult(found, show)


def _cells(token: TokenResponse) -> tuple[str, ...]:
    revoked = utc(token["revoked_at"]) if token["revoked_at"] else ""
    tenant = token["tenant"] or "all"
    return token["id"], token["name"], token["role"], tenant, utc(token["expires_at"]), revoked


async def _revoke(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    token = await cluster.tokens.revoke(await _id_of(cluster, arguments.token))

    def show(console: Console) -> None:
        console.print(f"token {token['id']} ({token['name']}) is revoked", soft_wrap=True)

    return CommandResult(token, show)


async def _id_of(cluster: ClusterAccess, given: str) -> str:
    """Return the id of a token by its id or name; of tokens with the same name, one is valid.

    A leaked token is at hand as a whole, so that is accepted, too.
    """
    given = id_within(given) or given
    tokens = (await cluster.tokens.list_all())["tokens"]
    for token in tokens:
        if given == token["id"] or (given == token["name"] and not token["revoked_at"]):
            return token["id"]
    hint = "`tenantcron token list` shows all"
    if any(given == token["name"] for token in tokens):
        raise NotFoundError(f"all tokens named {given!a} are revoked", hint)
    raise NotFoundError(f"there is no token {given!a}", hint)
