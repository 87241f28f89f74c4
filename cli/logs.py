"""`tenantcron logs`: shows what the handlers of executions logged.

Log lines go to standard output. Titles of attempts and errors go to standard error, so a pipe gets
the log alone.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from tenantcron.cli.clusters.choice import with_cluster
from tenantcron.cli.clusters.cluster import ClusterAccess, ExecutionQuery
from tenantcron.cli.execution_follow import ENDED, POLL
from tenantcron.cli.live_log import FollowedLog
from tenantcron.cli.moments import utc
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import add_cluster, past, schedule_or_id
from tenantcron.cli.responding import declined, resolved
from tenantcron.cli.terminal import Palette
from tenantcron.core.errors import DeclinedError, UsageError
from tenantcron.core.execution_ids import SHORTEST_PREFIX, short_id
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.core.words import visible
from tenantcron.service.responses.shapes import (
    AttemptResponse,
    ExecutionDetailsResponse,
    ExecutionResponse,
)

_EXAMPLES = """\
examples:
  tenantcron logs acme/nightly                    the last execution that started
  tenantcron logs acme/nightly --since 1d         all that were scheduled since then
  tenantcron logs 3f2a9c1e --attempt 2
  tenantcron logs acme/nightly --follow           the running execution, or the next one
  tenantcron logs acme/nightly 2> /dev/null | grep ERROR
"""
_MOST: Final = 100
_MOST_ATTEMPTS: Final = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Show the log of an execution's attempts, also while it runs."
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "target",
        metavar="TENANT/SCHEDULE|ID",
        type=schedule_or_id,
        help=f"schedule, or at least {SHORTEST_PREFIX} characters of an execution id",
    )
    parser.add_argument(
        "--follow", action="store_true", help="print lines until the execution ends"
    )
    words = "all executions scheduled at or after TIME"
    parser.add_argument("--since", metavar="TIME", type=past, help=words)
    read = number(1, _MOST_ATTEMPTS)
    parser.add_argument("--attempt", metavar="N", type=read, help="show only this attempt")
    add_cluster(parser)
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="set the output format (text)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show the logs."""
    is_schedule = isinstance(arguments.target, ScheduleRef)
    if arguments.since is not None and (arguments.follow or not is_schedule):
        raise UsageError("--since needs a schedule and cannot be used with --follow")
    work = _follow if arguments.follow else _show

    async def show(cluster: ClusterAccess) -> int:
        return await work(cluster, arguments)

    try:
        return with_cluster(arguments, show)
    except DeclinedError as error:
        return declined(error)


async def _show(cluster: ClusterAccess, arguments: argparse.Namespace) -> int:
    if isinstance(arguments.target, ScheduleRef):
        since = await resolved(cluster, arguments.since)
        query = _query(arguments.target, since)
        started = [found for found in await cluster.executions.newest(query, _MOST) if _ran(found)]
        chosen = [found["id"] for found in (started if since else started[:1])]
    else:
        chosen = [arguments.target]
    if not chosen:
        why = f"`tenantcron why {arguments.target}` explains why"
        raise DeclinedError(f"no execution has started: {why}")
    log = AttemptLog(arguments)
    for key in reversed(chosen):
        log.print(await cluster.executions.show(key))
    log.require_attempt()
    return 0


async def _follow(cluster: ClusterAccess, arguments: argparse.Namespace) -> int:
    """Print lines as they are logged; return 1 if the execution does not succeed."""
    key = arguments.target
    if isinstance(key, ScheduleRef):
        key = await _next(cluster, key)
    log = AttemptLog(arguments)
    while True:
        execution = await cluster.executions.show(key)
        log.print(execution)
        if execution["state"] in ENDED:
            log.require_attempt()
            return int(execution["state"] != "SUCCEEDED")
        await asyncio.sleep(POLL)


async def _next(cluster: ClusterAccess, ref: ScheduleRef) -> str:
    """Return the execution that has not ended, or wait for the next one."""
    query = _query(ref, None)
    ended: str | None = None
    is_first = True
    while True:
        newest = await cluster.executions.newest(query, 1)
        for execution in newest:
            if execution["state"] not in ENDED or not (is_first or execution["id"] == ended):
                return execution["id"]
            ended = execution["id"]
        if is_first:
            print(f"waiting for the next execution of {ref}", file=sys.stderr)
        is_first = False
        await asyncio.sleep(POLL)


def _query(ref: ScheduleRef, since: datetime | None) -> ExecutionQuery:
    return ExecutionQuery(ref.tenant, ref.schedule, (), since, None)


def _ran(execution: ExecutionResponse) -> bool:
    return execution["attempt"] > 0


class AttemptLog:
    """Prints attempts, each line once. JSON has a document for each attempt that has ended."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._only: int | None = arguments.attempt
        self._is_json = arguments.format == "json"
        self._paint = Palette(sys.stderr)
        self._printed: set[tuple[str, int]] = set()
        self._followed: dict[tuple[str, int], FollowedLog] = {}

    def print(self, execution: ExecutionDetailsResponse) -> None:
        """Print what was logged since the last call."""
        for attempt in execution["attempts"]:
            key = (execution["id"], attempt["attempt"])
            if key in self._printed or self._only not in (None, attempt["attempt"]):
                continue
            self._printed.add(key)
            (self._print_json if self._is_json else self._print_ended)(execution, attempt)
        if execution["state"] == "RUNNING" and self._only in (None, execution["attempt"]):
            self._print_running(execution)
        sys.stdout.flush()

    def require_attempt(self) -> None:
        """Decline an attempt that does not exist."""
        if self._only is not None and not (self._printed or self._followed):
            raise DeclinedError(f"there is no attempt {self._only} that has started")

    def _print_json(self, execution: ExecutionDetailsResponse, attempt: AttemptResponse) -> None:
        print(json.dumps({"execution": execution["id"], **attempt}))

    def _print_running(self, execution: ExecutionDetailsResponse) -> None:
        """Print the new lines of the running attempt."""
        key = (execution["id"], execution["attempt"])
        # It has ended after the state of the execution was read.
        if key in self._printed:
            return
        if key not in self._followed:
            self._followed[key] = FollowedLog()
            self._title(execution, f"attempt {key[1]} is running")
        # A server of the release before does not return it.
        running = execution.get("running_log")
        if running is not None and not self._is_json:
            self._lines(self._followed[key].more(running))

    def _print_ended(self, execution: ExecutionDetailsResponse, attempt: AttemptResponse) -> None:
        """Print an attempt that has ended, or what is missing of its log."""
        key = (execution["id"], attempt["attempt"])
        title = f"attempt {key[1]} {attempt['outcome']} at {utc(attempt['finished_at'])}"
        followed = self._followed.get(key)
        if followed is None:
            self._title(execution, title)
            self._lines((attempt["log"] or "").splitlines())
        else:
            self._lines(followed.rest(attempt["log"] or ""))
            self._title(execution, title)
        if attempt["log"] is None:
            print("its handler logged nothing", file=sys.stderr)
        if attempt["error"]:
            # Line by line: an error of a handler ends with its traceback.
            for line in f"error: {attempt['error']}".splitlines():
                print(self._paint("error", visible(line)), file=sys.stderr)

    def _title(self, execution: ExecutionDetailsResponse, words: str) -> None:
        ref = f"{execution['tenant']}/{execution['schedule']}"
        title = f"{ref} {short_id(execution['id'])}, {words}"
        print(self._paint("dim", visible(title)), file=sys.stderr, flush=True)

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(visible(line))
        sys.stdout.flush()
