"""Chooses the cluster of a command; `tenantcron.cli.contexts` explains the precedence."""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.clusters.targets import ChosenDatabase, ChosenServer
from tenantcron.cli.contexts.context import EMBEDDED, Context
from tenantcron.cli.environment import current_settings, using_database
from tenantcron.core.errors import NotFoundError, UsageError

T = TypeVar("T")

CONTEXT: Final = "TENANTCRON_CONTEXT"
SERVER: Final = "TENANTCRON_SERVER"
TOKEN: Final = "TENANTCRON_TOKEN"  # noqa: S105 -- the name of a variable

_NO_CLUSTER: Final = (
    f"{TOKEN} is set, but no server is chosen: use --server URL, set {SERVER}, or choose a "
    f"context with `tenantcron context use NAME`; for the embedded database in this folder, use "
    f"--context {EMBEDDED}"
)

Command = Callable[[argparse.Namespace], int]


def with_cluster(arguments: argparse.Namespace, work: Callable[[ClusterAccess], Awaitable[T]]) -> T:
    """Run work on the cluster of a command. Only what that needs is imported."""
    actor = getattr(arguments, "actor", None)
    match chosen(arguments):
        case ChosenServer() as target:
            refuse_actor(actor)
            from tenantcron.cli.clusters.server.cluster import on_server  # noqa: PLC0415 -- above

            return on_server(target, work)
        case ChosenDatabase() as database:
            from tenantcron.cli.clusters.database.cluster import (  # noqa: PLC0415 -- see above
                on_database,
            )

            with using_database(database):
                return on_database(actor, work)


def refuse_actor(actor: str | None) -> None:
    """Raise a UsageError if --actor is given for a server."""
    if actor is not None:
        raise UsageError("--actor cannot be used with --server: the token determines the actor")


def database_only(run: Command) -> Command:
    """Make a command use a database, and explain why it cannot use a server."""

    def checked(arguments: argparse.Namespace) -> int:
        match _nearest(arguments):
            case ChosenServer() as target:
                raise UsageError(
                    f"this command works on a database, not on the server of {target.origin}: set "
                    "TENANTCRON_DATABASE_URL, or use a context with a database"
                )
            case ChosenDatabase() as database:
                with using_database(database):
                    return run(arguments)

    return checked


def chosen(arguments: argparse.Namespace) -> ChosenServer | ChosenDatabase:
    """Return the server or the database that a command works on.

    A token is for a server. If no cluster is chosen, the caller has probably forgotten to name it,
    and must not end up in a new embedded database.
    """
    target = _nearest(arguments)
    is_token_for_nothing = target == ChosenDatabase() and bool(os.environ.get(TOKEN))
    if is_token_for_nothing and current_settings().database_url is None:
        raise UsageError(_NO_CLUSTER)
    return target


def _nearest(arguments: argparse.Namespace) -> ChosenServer | ChosenDatabase:
    """Return the choice that is nearest to the command."""
    options = _named(arguments.server, arguments.context, "--server", "--context")
    if options is not None:
        return options
    variables = _named(
        os.environ.get(SERVER) or None, os.environ.get(CONTEXT) or None, SERVER, CONTEXT
    )
    if variables is not None:
        return variables
    if current_settings().database_url is not None:
        return ChosenDatabase()
    return _current(is_announced=getattr(arguments, "removes", False))


def _named(
    server: str | None, name: str | None, by_url: str, by_name: str
) -> ChosenServer | ChosenDatabase | None:
    """Return the cluster that is given by its URL or by the name of its context."""
    if server is not None and name is not None:
        raise UsageError(f"{by_url} and {by_name} are given: give one")
    if server is not None:
        return ChosenServer(server, lambda: os.environ.get(TOKEN), TOKEN, by_url)
    if name is None:
        return None
    if name == EMBEDDED:
        return ChosenDatabase(is_embedded=True)
    # Imported here: most commands use no contexts.
    from tenantcron.cli.contexts.context_file import load_contexts  # noqa: PLC0415 -- see above

    try:
        return _of_context(load_contexts(os.environ).named(name))
    except NotFoundError as error:
        raise UsageError(str(error)) from error


def _current(*, is_announced: bool) -> ChosenServer | ChosenDatabase:
    """Return the cluster of the current context; without one, the embedded database."""
    from tenantcron.cli.contexts.context_file import load_contexts  # noqa: PLC0415 -- see above

    known = load_contexts(os.environ)
    if known.current is None:
        return ChosenDatabase()
    return _of_context(known.named(known.current), is_announced=is_announced)


def _of_context(context: Context, *, is_announced: bool = False) -> ChosenServer | ChosenDatabase:
    """Return the cluster of a context, and name it on a terminal."""
    if is_announced or sys.stderr.isatty():
        print(f"using context {context.name}: {context.place}", file=sys.stderr)
    if context.server is None:
        return ChosenDatabase(context.database_url_in(os.environ))
    return ChosenServer(
        context.server,
        lambda: context.token_in(os.environ),
        context.token_source,
        f"context {context.name}",
    )
