"""`tenantcron context`: manages the clusters that a user works with."""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.text import Text

from tenantcron.actor.api_tokens import id_within
from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.contexts.context import Context, read_context
from tenantcron.cli.contexts.context_file import ContextFile, load_contexts
from tenantcron.cli.operating import add_format
from tenantcron.cli.responding import CommandResult, declined, print_result
from tenantcron.cli.tables import print_table
from tenantcron.client.addresses import server_address
from tenantcron.core.errors import DeclinedError, UsageError

_EXAMPLES = """\
examples:
  tenantcron context set prod --server https://cron.internal --token-env PROD_TOKEN
  tenantcron context set prod --server https://cron.internal --token-stdin < token.txt
  tenantcron context set local --database-url-env LOCAL_DATABASE_URL
  tenantcron context use prod
  tenantcron context list
  tenantcron health --context prod               use another context for one command
"""
_COLUMNS: Final = (
    Column(""),
    Column("name", Fit.NAME),
    Column("cluster", Fit.NAME),
    Column("token", Fit.PROSE),
)
_STORED: Final = "stored"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = (
        "Manage contexts: the servers and databases that commands use, by name. They are stored "
        "in the user's configuration folder."
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    setting = actions.add_parser("set", help="add a context or replace it")
    using = actions.add_parser("use", help="make a context the current one")
    deleting = actions.add_parser("delete", help="delete a context")
    showing = actions.add_parser("show", help="show a context, or the current one")
    listing = actions.add_parser("list", help="list all contexts")
    for action in (setting, using, deleting):
        action.add_argument("name", metavar="NAME", help="name of the context")
    showing.add_argument("name", metavar="NAME", nargs="?", help="name of the context (current)")
    _configure_set(setting)
    works = {setting: _set, using: _use, deleting: _delete, showing: _show, listing: _list}
    for action, work in works.items():
        add_format(action, has_table=action is listing)
        action.set_defaults(run=_run, work=work)


def _configure_set(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--server", metavar="URL", help="use this server")
    words = "use the database whose URL is in a variable"
    place.add_argument("--database-url-env", metavar="NAME", type=_variable, help=words)
    words = "use the database whose URL is in a file"
    place.add_argument("--database-url-file", metavar="FILE", help=words)
    token = parser.add_mutually_exclusive_group()
    words = "take the token from a variable"
    token.add_argument("--token-env", metavar="NAME", type=_variable, help=words)
    token.add_argument("--token-file", metavar="FILE", help="take the token from a file")
    token.add_argument("--token-stdin", action="store_true", help="store the token from stdin")


def _variable(text: str) -> str:
    """Parse the name of a variable. What is none may be a secret, so it is not shown."""
    if not text.isidentifier() or not text.isascii() or id_within(text):
        raise UsageError("this takes the name of a variable, not its value: store the value there")
    return text


def _run(arguments: argparse.Namespace) -> int:
    try:
        return print_result(arguments, arguments.work(load_contexts(os.environ), arguments))
    except DeclinedError as error:
        return declined(error)


def _set(known: ContextFile, arguments: argparse.Namespace) -> CommandResult:
    context = read_context(arguments.name, dict(_members(arguments)))
    if context.server is not None:
        server_address(context.server, context.token)
    # The first context is the current one: there is no other that could be meant.
    current = known.current if known.contexts else context.name
    replace(known, contexts={**known.contexts, context.name: context}, current=current).save()
    return _result(context, current, f"context {context.name} is {context.place}")


def _members(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for key in ("server", "database_url_env", "database_url_file", "token_env", "token_file"):
        value = getattr(arguments, key)
        if value is not None:
            yield key, value
    if arguments.token_stdin:
        yield "token", _token_of_stdin()


def _token_of_stdin() -> str:
    """Read a token; on a terminal without showing it."""
    if sys.stdin.isatty():
        from getpass import getpass  # noqa: PLC0415 -- only needed on a terminal

        token = getpass("Token: ")
    else:
        token = sys.stdin.readline()
    if not token.strip():
        raise UsageError("stdin has no token: pipe it into the command")
    return token.strip()


def _use(known: ContextFile, arguments: argparse.Namespace) -> CommandResult:
    context = known.named(arguments.name)
    replace(known, current=context.name).save()
    return _result(context, context.name, f"commands use {context.name}: {context.place}")


def _delete(known: ContextFile, arguments: argparse.Namespace) -> CommandResult:
    context = known.named(arguments.name)
    others = {name: other for name, other in known.contexts.items() if name != context.name}
    current = None if known.current == context.name else known.current
    replace(known, contexts=others, current=current).save()
    return _result(context, current, f"context {context.name} is deleted")


def _show(known: ContextFile, arguments: argparse.Namespace) -> CommandResult:
    name = arguments.name or known.current
    if name is None:
        raise DeclinedError("there is no current context: `tenantcron context use NAME`")
    context = known.named(name)
    rows = {
        "context": context.name + (" (current)" if context.name == known.current else ""),
        "cluster": context.place,
        **({"token": _token(context)} if context.server else {}),
    }
    return _result(context, known.current, *(f"{key:<8} {value}" for key, value in rows.items()))


def _list(known: ContextFile, _: argparse.Namespace) -> CommandResult:
    def show(console: Console) -> None:
        if known.contexts:
            rows = [_cells(context, known.current) for context in known.contexts.values()]
            print_table(console, _COLUMNS, rows)
        else:
            console.print("no contexts: `tenantcron context set NAME --server URL`")

    contexts = [_as_json(context, known.current) for context in known.contexts.values()]
    return CommandResult({"contexts": contexts}, show)


def _cells(context: Context, current: str | None) -> tuple[str, ...]:
    mark = "*" if context.name == current else ""
    return mark, context.name, context.place, _token(context) if context.server else ""


def _token(context: Context) -> str:
    return _STORED if context.token is not None else f"from {context.token_source}"


def _result(context: Context, current: str | None, *lines: str) -> CommandResult:
    def show(console: Console) -> None:
        for line in lines:
            console.print(Text(line), soft_wrap=True)

    return CommandResult(_as_json(context, current), show)


def _as_json(context: Context, current: str | None) -> Mapping[str, object]:
    """Return a context without its token."""
    return {
        "name": context.name,
        "current": context.name == current,
        "server": context.server,
        "database_url_env": context.database_url_env,
        "database_url_file": context.database_url_file,
        "token_env": context.token_env,
        "token_file": context.token_file,
        "token_stored": context.token is not None,
    }
