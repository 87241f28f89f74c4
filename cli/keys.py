"""`tenantcron keys`: shows and rotates the keys that sign execution tokens."""

import argparse
from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console
from rich.text import Text

from tenantcron.actor.keys import Algorithm, PemKeys
from tenantcron.actor.sealing import SealError
from tenantcron.cli.database import acting, refused
from tenantcron.cli.operating import CommandResult, Work, add_actor, add_format, respond, settings
from tenantcron.cli.tables import plain_table
from tenantcron.core.durations import EXPECTED, DurationError, format_duration, parse_duration
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import in_utc, number_of
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.signing_keys import (
    LEAD,
    SigningKeyError,
    SigningKeys,
    Standing,
)
from tenantcron.service.responses.executions import iso
from tenantcron.store.connection.engine import Database

_EXAMPLES = """\
examples:
  tenantcron keys list
  tenantcron keys rotate                     a new key, published now, signing in 15 minutes
  tenantcron keys rotate --lead 2h           for verifiers that keep what they fetched for long
  tenantcron keys rotate --now               the old key is in the wrong hands: sign with another
  tenantcron keys retire KID                 and trust the old one no more
  tenantcron keys jwks > jwks.json           the public keys, for verifiers
  tenantcron keys rewrap                     seal private keys with the first master key
"""
_LONGEST_LEAD = timedelta(days=7)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = "Show and rotate the keys that sign execution tokens."
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, work in _ACTIONS.items():
        action = actions.add_parser(name, help=work.__doc__, description=work.__doc__)
        if name == "rotate":
            _add_rotation(action)
        if name == "retire":
            action.add_argument("kid", metavar="KID")
        if name in ("rotate", "retire", "rewrap"):
            add_actor(action)
        if name != "jwks":
            add_format(action)
        action.set_defaults(run=run, work=work)


def run(arguments: argparse.Namespace) -> int:
    """Carry the action out; what cannot be done to a key is refused."""
    try:
        return respond(arguments)
    except (SigningKeyError, SealError) as error:
        return refused(error)


def signing_keys(database: Database, actor: str | None) -> SigningKeys:
    """Return the keys of the settings and of the database, for whoever called."""
    return SigningKeys(database, KeyMaterial(settings()), acting(actor))


def _add_rotation(action: argparse.ArgumentParser) -> None:
    algorithms = [one.value for one in Algorithm]
    action.add_argument("--algorithm", choices=algorithms, default=Algorithm.EDDSA.value)
    when = action.add_mutually_exclusive_group()
    words = (
        f"how long verifiers have to fetch it before it signs (default: {format_duration(LEAD)})"
    )
    when.add_argument("--lead", metavar="TIME", type=_lead, default=LEAD, help=words)
    when.add_argument("--now", dest="lead", action="store_const", const=timedelta(0))


def _lead(text: str) -> timedelta:
    try:
        lead = parse_duration(text)
    except DurationError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {EXPECTED}") from None
    if not timedelta(0) < lead <= _LONGEST_LEAD:
        longest = format_duration(_LONGEST_LEAD)
        raise argparse.ArgumentTypeError(f"a lead is at most {longest}; without one: --now")
    return lead


async def _list(database: Database, _: argparse.Namespace) -> CommandResult:
    """show all keys and what each is for now"""
    keys = signing_keys(database, None)
    own, known = keys.material.own(), await keys.list_all()

    def show(console: Console) -> None:
        _show_own(own, console)
        _show(known, console)

    configured: list[JsonValue] = [] if own is None else [one.kid for one in own.published]
    return CommandResult({"configured": configured, "keys": [_as_json(one) for one in known]}, show)


async def _rotate(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """make a new key; verifiers can fetch it before it signs"""
    keys = signing_keys(database, arguments.actor)
    made = await keys.rotate(Algorithm(arguments.algorithm), arguments.lead)

    def show(console: Console) -> None:
        when = in_utc(made.row.active_from)
        console.print(f"key {made.row.kid} is {made.state}: it signs from {when} on")

    return CommandResult(_as_json(made), show)


async def _retire(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """take a key back before its time: its tokens are worth nothing any more"""
    retired = await signing_keys(database, arguments.actor).retire(arguments.kid)

    def show(console: Console) -> None:
        console.print(f"key {retired.row.kid} is retired: verifiers drop it when they fetch anew")

    return CommandResult(_as_json(retired), show)


async def _rewrap(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """seal private keys with the first master key, those that another one has sealed"""
    number = await signing_keys(database, arguments.actor).rewrap()

    def show(console: Console) -> None:
        console.print(f"{number_of(number, 'key')} sealed anew")

    return CommandResult({"rewrapped": number}, show)


async def _jwks(database: Database, arguments: argparse.Namespace) -> CommandResult:
    """print the public keys as a JSON Web Key Set"""
    arguments.format = "json"
    return CommandResult(await signing_keys(database, None).key_set(), lambda _: None)


_ACTIONS: dict[str, Work] = {
    "list": _list,
    "rotate": _rotate,
    "retire": _retire,
    "rewrap": _rewrap,
    "jwks": _jwks,
}


def _as_json(one: Standing) -> JsonObject:
    row = one.row
    return {
        "kid": row.kid,
        "algorithm": row.algorithm,
        "state": one.state.value,
        "until": iso(one.until),
        "created_at": iso(row.created_at),
        "active_from": iso(row.active_from),
        "retired_at": iso(row.retired_at),
        "sealed_by": row.sealed.sealed_by if row.sealed else None,
    }


def _show_own(own: PemKeys | None, console: Console) -> None:
    if own is not None:
        console.print(f"{own.signing.public.kid} of the settings signs, in place of these:")


def _show(known: Sequence[Standing], console: Console) -> None:
    table = plain_table("key", "algorithm", "state", "until", "master key")
    for one in known:
        until = in_utc(one.until) if one.until else ""
        sealed_by = one.row.sealed.sealed_by if one.row.sealed else ""
        cells = (one.row.kid, one.row.algorithm, one.state.value, until, sealed_by)
        table.add_row(*map(Text, cells))
    console.print(table if known else "no keys yet: the first token makes one, or `keys rotate`")
