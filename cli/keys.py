"""`tenantcron keys`: manages the keys that sign execution tokens."""

import argparse
from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.moments import utc
from tenantcron.cli.operating import add_actor, add_cluster, add_format
from tenantcron.cli.responding import ClusterWork, CommandResult, respond
from tenantcron.cli.tables import print_table
from tenantcron.core.durations import EXPECTED, DurationError, format_duration, parse_duration
from tenantcron.core.key_leads import LEAD, LONGEST_LEAD
from tenantcron.core.words import number_of
from tenantcron.service.responses.platform_shapes import ALGORITHMS, SigningKeyResponse

_EXAMPLES = """\
examples:
  tenantcron keys list
  tenantcron keys rotate                     publish a new key now, sign with it in 15 minutes
  tenantcron keys rotate --lead 2h           for verifiers that cache keys for up to 2 hours
  tenantcron keys rotate --now               sign with a new key at once: the old one leaked
  tenantcron keys retire KID                 revoke the leaked key
  tenantcron keys jwks > jwks.json           export the public keys for verifiers
  tenantcron keys rewrap                     encrypt private keys with the first master key
"""
_COLUMNS = (
    Column("key"),
    Column("algorithm", Fit.OPTIONAL),
    Column("state"),
    Column("until"),
    Column("master key", Fit.OPTIONAL),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = "Manage the keys that sign execution tokens."
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, work in _ACTIONS.items():
        action = actions.add_parser(name, help=work.__doc__, description=work.__doc__)
        if name == "rotate":
            _add_rotation(action)
        if name == "retire":
            action.add_argument("kid", metavar="KID", help="key id")
        if name in ("rotate", "retire", "rewrap"):
            add_actor(action)
        add_cluster(action)
        if name != "jwks":
            add_format(action, has_table=name == "list", listing="keys" if name == "list" else None)
        action.set_defaults(run=respond, work=work, removes=name == "retire")


def _add_rotation(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        default=ALGORITHMS[0],
        help=f"use this algorithm ({ALGORITHMS[0]})",
    )
    when = action.add_mutually_exclusive_group()
    words = f"publish it this long before it signs (default: {format_duration(LEAD)})"
    when.add_argument("--lead", metavar="TIME", type=_lead, default=LEAD, help=words)
    words = "sign with it at once"
    when.add_argument("--now", dest="lead", action="store_const", const=timedelta(0), help=words)


def _lead(text: str) -> timedelta:
    try:
        lead = parse_duration(text)
    except DurationError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {EXPECTED}") from None
    if not timedelta(0) < lead <= LONGEST_LEAD:
        longest = format_duration(LONGEST_LEAD)
        raise argparse.ArgumentTypeError(f"a lead is at most {longest}; use --now for none")
    return lead


async def _list(cluster: ClusterAccess, _: argparse.Namespace) -> CommandResult:
    """list all keys and their state"""
    found = await cluster.keys.list_all()

    def show(console: Console) -> None:
        for kid in found["configured"][:1]:
            console.print(f"{kid} of the settings signs instead of these keys:")
        _show(found["keys"], console)

    return CommandResult(found, show)


async def _rotate(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """create a key and publish it before it signs"""
    made = await cluster.keys.rotate(arguments.algorithm, arguments.lead)

    def show(console: Console) -> None:
        when = utc(made["active_from"])
        console.print(f"key {made['kid']} is {made['state']}: it signs from {when} on")

    return CommandResult(made, show)


async def _retire(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """revoke a key early, which invalidates its tokens"""
    retired = await cluster.keys.retire(arguments.kid)

    def show(console: Console) -> None:
        console.print(f"key {retired['kid']} is retired: verifiers drop it at their next fetch")

    return CommandResult(retired, show)


async def _rewrap(cluster: ClusterAccess, _: argparse.Namespace) -> CommandResult:
    """encrypt all private keys with the first master key"""
    found = await cluster.keys.rewrap()

    def show(console: Console) -> None:
        console.print(f"{number_of(found['rewrapped'], 'key')} re-encrypted")

    return CommandResult(found, show)


async def _jwks(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    """print the public keys as a JSON Web Key Set"""
    arguments.format, arguments.wide = "json", False
    return CommandResult(await cluster.keys.key_set(), lambda _: None)


_ACTIONS: dict[str, ClusterWork] = {
    "list": _list,
    "rotate": _rotate,
    "retire": _retire,
    "rewrap": _rewrap,
    "jwks": _jwks,
}


def _show(keys: Sequence[SigningKeyResponse], console: Console) -> None:
    if keys:
        print_table(console, _COLUMNS, [_cells(key) for key in keys])
    else:
        console.print("no keys yet: the first token or `keys rotate` creates one")


def _cells(key: SigningKeyResponse) -> tuple[str, ...]:
    until = utc(key["until"]) if key["until"] else ""
    return key["kid"], key["algorithm"], key["state"], until, key["sealed_by"] or ""
