"""Runs the work of a command on its cluster and prints the response."""

import argparse
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

from rich.console import Console

from tenantcron.cli.clusters.choice import with_cluster
from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.formats.listings import CsvListing
from tenantcron.cli.moments import Moment
from tenantcron.cli.pipes import reader_may_leave
from tenantcron.cli.tables import output
from tenantcron.cli.watching import repeated, watched_seconds
from tenantcron.core.errors import DeclinedError, TenantcronError


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: the response for programs, text for people, and the exit code.

    The text is made from the response, so it is the same for a database and a server.
    """

    data: Mapping[str, object]
    show: Callable[[Console], None]
    code: int = 0
    # What people should know besides, for stderr.
    note: str | None = None


# Of lists of executions, tasks and audit records.
DEFAULT_LIMIT: Final = 20

ClusterWork = Callable[[ClusterAccess, argparse.Namespace], Awaitable[CommandResult]]


def respond(arguments: argparse.Namespace) -> int:
    """Run the work of a command on its cluster and print the result."""
    work: ClusterWork = arguments.work

    async def run(cluster: ClusterAccess) -> CommandResult:
        return await work(cluster, arguments)

    async def draw(cluster: ClusterAccess) -> int:
        return print_result(arguments, await run(cluster))

    try:
        if watched_seconds(arguments) is not None:
            return with_cluster(arguments, repeated(arguments, draw))
        return print_result(arguments, with_cluster(arguments, run))
    except DeclinedError as error:
        return declined(error)


def print_result(arguments: argparse.Namespace, result: CommandResult) -> int:
    """Print the result of a command and return its exit code."""
    with reader_may_leave():
        if arguments.format == "text":
            result.show(output(is_wide=arguments.wide))
        else:
            _print_response(arguments, result.data)
    if result.note:
        print(f"note: {result.note}", file=sys.stderr)
    return result.code


def note_of_limit(number: int, limit: int) -> str | None:
    """Return a note if a list may have been cut at the default limit."""
    if number < limit or limit != DEFAULT_LIMIT:
        return None
    return f"these are the newest {limit}; for more, raise --limit"


def _print_response(arguments: argparse.Namespace, data: Mapping[str, object]) -> None:
    if arguments.format == "json":
        print(json.dumps(data, indent=2))
    elif arguments.format == "yaml":
        from tenantcron.cli.formats.yaml_text import as_yaml  # noqa: PLC0415 -- few need ruamel.yaml

        print(as_yaml(data), end="")
    else:
        rows = CsvListing(sys.stdout, arguments.listing)
        for item in cast("Sequence[Mapping[str, object]]", data[arguments.listing]):
            rows.item(item)
        rows.end({})


def declined(error: TenantcronError) -> int:
    """Print why a request was declined and return its exit code."""
    print(f"error: {error}", file=sys.stderr)
    return 1


async def resolved(cluster: ClusterAccess, given: Moment | None) -> datetime | None:
    """Return the absolute time; relative ones are computed from the cluster's clock."""
    return None if given is None else given(await cluster.now())
