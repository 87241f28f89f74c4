"""`tenantcron execution list --follow`: prints executions as they change state.

A poll reads the newest executions that match, by the index of the list, and prints those whose
state differs from the last poll. Executions that have not ended are remembered. If newer ones have
displaced them from the page, they are looked up by their ids. So a poll costs index lookups,
however long the history is, and works the same on a database and on a server.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tenantcron.cli.clusters.choice import with_cluster
from tenantcron.cli.clusters.cluster import ClusterAccess, ExecutionQuery
from tenantcron.cli.columns import TextColumns
from tenantcron.cli.formats.executions_text import EXECUTION_COLUMNS, execution_rows
from tenantcron.cli.formats.listings import CsvListing
from tenantcron.cli.operating import scope
from tenantcron.cli.responding import declined, resolved
from tenantcron.cli.tables import columns_available
from tenantcron.cli.terminal import Palette
from tenantcron.core.errors import DeclinedError, UsageError
from tenantcron.service.responses.shapes import ExecutionResponse

POLL: Final = 1.0
_PAGE: Final = 100
# Of executions that have left the page, at most so many are looked up in a poll.
_MOST_LOOKED_UP: Final = 20
ENDED: Final = ("SUCCEEDED", "DEAD", "SKIPPED", "MISSED", "CANCELLED")


def add_follow(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--follow", action="store_true", help="print executions as they change, until Ctrl-C"
    )


def follow(arguments: argparse.Namespace) -> int:
    """Print executions as they change state."""
    printer = _printer(arguments)

    async def work(cluster: ClusterAccess) -> int:
        since, until = [await resolved(cluster, at) for at in (arguments.since, arguments.until)]
        # All states and reasons: a filter would hide the end of an execution that matched before.
        query = ExecutionQuery(*scope(arguments), (), since, until, arguments.saga)
        states, error = frozenset(arguments.state), arguments.error or ""
        changes = ExecutionChanges(cluster, query, states, error.lower())
        printer.print(await changes.first(arguments.limit))
        while True:
            await asyncio.sleep(POLL)
            printer.print(await changes.poll())

    try:
        return with_cluster(arguments, work)
    except DeclinedError as error:
        return declined(error)


@dataclass(slots=True)
class ExecutionChanges:
    """The executions of a query, with the states in which they were seen last."""

    cluster: ClusterAccess
    query: ExecutionQuery
    states: frozenset[str]
    # A part of the reason, in lower case.
    error: str = ""
    _seen: dict[str, tuple[str, int]] = field(default_factory=dict)

    async def first(self, limit: int) -> list[ExecutionResponse]:
        """Return the newest executions, the oldest of them first."""
        page = await self.cluster.executions.newest(self.query, max(limit, _PAGE))
        shown = [execution for execution in reversed(page) if self._matches(execution)]
        self._remember(page)
        return shown[-limit:]

    async def poll(self) -> list[ExecutionResponse]:
        """Return the executions that changed since the last poll, the oldest first."""
        page = await self.cluster.executions.newest(self.query, _PAGE)
        found = [*await self._displaced(page), *reversed(page)]
        changed = [each for each in found if self._seen.get(each["id"]) != _state(each)]
        self._remember(found)
        return [execution for execution in changed if self._matches(execution)]

    async def _displaced(self, page: Sequence[ExecutionResponse]) -> list[ExecutionResponse]:
        """Look up executions that have not ended and are no longer in the page."""
        listed = {execution["id"] for execution in page}
        missing = [key for key in self._open() if key not in listed]
        return [await self.cluster.executions.show(key) for key in missing[:_MOST_LOOKED_UP]]

    def _remember(self, found: Sequence[ExecutionResponse]) -> None:
        """Keep the executions that have not ended; those that were not read come first next."""
        states = {execution["id"]: _state(execution) for execution in found}
        unread = {key: self._seen[key] for key in self._open() if key not in states}
        self._seen = unread | states

    def _open(self) -> list[str]:
        return [key for key, (state, _) in self._seen.items() if state not in ENDED]

    def _matches(self, execution: ExecutionResponse) -> bool:
        has_state = not self.states or execution["state"] in self.states
        return has_state and self.error in (execution["reason"] or "").lower()


def _state(execution: ExecutionResponse) -> tuple[str, int]:
    """A new attempt is a change, too."""
    return execution["state"], execution["attempt"]


class _ExecutionPrinter(Protocol):
    """Prints executions as they come."""

    def print(self, executions: Sequence[ExecutionResponse]) -> None:
        """Print some executions."""


def _printer(arguments: argparse.Namespace) -> _ExecutionPrinter:
    match arguments.format:
        case "json":
            return _JsonLines()
        case "csv":
            return _CsvLines()
        case "yaml":
            raise UsageError("--follow has no YAML: use --format json, a document per line")
    return _TableLines(columns_available(is_wide=arguments.wide))


class _JsonLines:
    """Prints a JSON document per line."""

    def print(self, executions: Sequence[ExecutionResponse]) -> None:
        for execution in executions:
            print(json.dumps(execution))
        sys.stdout.flush()


class _CsvLines:
    """Prints rows of CSV."""

    def __init__(self) -> None:
        self._rows = CsvListing(sys.stdout, "executions")

    def print(self, executions: Sequence[ExecutionResponse]) -> None:
        for execution in executions:
            self._rows.item({**execution})
        sys.stdout.flush()


class _TableLines:
    """Prints rows of a table, whose widths are those of the first rows."""

    def __init__(self, available: int) -> None:
        self._available = available
        self._paint = Palette(sys.stdout)
        self._columns: TextColumns | None = None

    def print(self, executions: Sequence[ExecutionResponse]) -> None:
        rows = execution_rows(executions)
        if self._columns is None and rows:
            self._columns = TextColumns.fitting(EXECUTION_COLUMNS, rows, self._available)
            for line in self._columns.head(self._paint):
                print(line)
        for row in rows:
            for line in self._columns.row(row, self._paint) if self._columns else ():
                print(line)
        sys.stdout.flush()
