"""`tenantcron keys`: manages the keys that sign execution tokens."""

import argparse
from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console

from tenantcron.actor.keys import Algorithm, PemKeys
from tenantcron.actor.sealing import SealError
from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.database import acting, refused
from tenantcron.cli.operating import CommandResult, Work, add_actor, add_format, respond, settings
from tenantcron.cli.tables import print_table
from tenantcron.core.durations import EXPECTED, DurationError, format_duration, parse_duration
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import in_utc, number_of
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.signing_keys import (
    LEAD,
    KeyStatus,
    SigningKeyError,
    SigningKeys,
)
from tenantcron.service.responses.executions import iso
from tenantcron.store.connection.engine import Database

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
_LONGEST_LEAD = timedelta(days=7)


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
        if name != "jwks":
            add_format(action, has_table=name == "list")
        action.set_defaults(run=run, work=work)


def run(arguments: argparse.Namespace) -> int:
    """Run the action; report a refused one as an error."""
    try:
        return respond(arguments)
    except (SigningKeyError, SealError) as error:
        return refused(error)


def signing_keys(database: Database, actor: str | None) -> SigningKeys:
    """Return the keys of the settings and the database, for this actor."""
    return SigningKeys(database, KeyMaterial(settings()), acting(actor))


def _add_rotation(action: argparse.ArgumentParser) -> None:
    algorithms = [algorithm.value for algorithm in Algorithm]
    action.add_argument(
        "--algorithm",
        choices=algorithms,
        default=Algorithm.EDDSA.value,
        help=f"use this algorithm ({Algorithm.EDDSA.value})",
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
    if not timedelta(0) < lead <= _LONGEST_LEAD:
        longest = format_duration(_LONGEST_LEAD)
        raise argparse.ArgumentTypeError(f"a lead is at most {longest}; use --now for none")
    return lead


async def _list(database: Database, _: argparse.Namespace) -> CommandResult:
    """list all keys and their state"""
    keys = signing_keys(database, None)
    own, known = keys.material.own(), await keys.list_all()

    def show(console: Console) -> None:
        _show_own(own, console)
        _show(known, console)

    configured: list[JsonValue] = [] if own is None else [key.kid for key in own.published]
    return CommandResult({"configured": configured, "keys": [_as_json(key) for key in known]}, show)


async def _rotate(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """create a key and publish it before it signs"""
    keys = signing_keys(database, arguments.actor)
    made = await keys.rotate(Algorithm(arguments.algorithm), arguments.lead)

    def show(console: Console) -> None:
        when = in_utc(made.row.active_from)
        console.print(f"key {made.row.kid} is {made.state}: it signs from {when} on")

    return CommandResult(_as_json(made), show)


async def _retire(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """revoke a key early, which invalidates its tokens"""
    retired = await signing_keys(database, arguments.actor).retire(arguments.kid)

    def show(console: Console) -> None:
        console.print(f"key {retired.row.kid} is retired: verifiers drop it at their next fetch")

    return CommandResult(_as_json(retired), show)


async def _rewrap(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """encrypt all private keys with the first master key"""
    number = await signing_keys(database, arguments.actor).rewrap()

    def show(console: Console) -> None:
        console.print(f"{number_of(number, 'key')} re-encrypted")

    return CommandResult({"rewrapped": number}, show)


async def _jwks(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """print the public keys as a JSON Web Key Set"""
    arguments.format, arguments.wide = "json", False
    return CommandResult(await signing_keys(database, None).key_set(), lambda _: None)


_ACTIONS: dict[str, Work] = {
    "list": _list,
    "rotate": _rotate,
    "retire": _retire,
    "rewrap": _rewrap,
    "jwks": _jwks,
}


def _as_json(key: KeyStatus) -> JsonObject:
    row = key.row
    return {
        "kid": row.kid,
        "algorithm": row.algorithm,
        "state": key.state.value,
        "until": iso(key.until),
        "created_at": iso(row.created_at),
        "active_from": iso(row.active_from),
        "retired_at": iso(row.retired_at),
        "sealed_by": row.sealed.sealed_by if row.sealed else None,
    }


def _show_own(own: PemKeys | None, console: Console) -> None:
    if own is not None:
        console.print(f"{own.signing.public.kid} of the settings signs instead of these keys:")


def _show(known: Sequence[KeyStatus], console: Console) -> None:
    if known:
        print_table(console, _COLUMNS, [_cells(key) for key in known])
    else:
        console.print("no keys yet: the first token or `keys rotate` creates one")


def _cells(key: KeyStatus) -> tuple[str, ...]:
    until = in_utc(key.until) if key.until else ""
    sealed_by = key.row.sealed.sealed_by if key.row.sealed else ""
    return key.row.kid, key.row.algorithm, key.state.value, until, sealed_by
