"""Executions as text: a table, and the details of one execution."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.tables import print_table
from tenantcron.core.durations import format_duration
from tenantcron.core.words import in_utc, number_of, visible
from tenantcron.scheduler.operate.execution_lookup import SHORTEST_PREFIX, ExecutionDetails
from tenantcron.store.rows.execution_history import AttemptRow, ExecutionRow
from tenantcron.store.rows.executions import State
from tenantcron.store.steps.suspects import kills

STYLES = {
    State.SUCCEEDED: "green",
    State.DEAD: "bold red",
    State.RETRYING: "yellow",
    State.MISSED: "yellow",
    State.SKIPPED: "yellow",
    State.RUNNING: "cyan",
}


_COLUMNS = (
    Column("execution"),
    Column("schedule", Fit.NAME),
    Column("scheduled for"),
    Column("state", style=lambda cell: STYLES.get(State(cell))),
    Column("attempt", Fit.OPTIONAL),
    Column("took", Fit.OPTIONAL),
    Column("reason", Fit.PROSE),
)


def print_executions(rows: Sequence[ExecutionRow], console: Console) -> None:
    """Print a table of executions."""
    print_table(console, _COLUMNS, [_cells(row) for row in rows])


def _cells(row: ExecutionRow) -> tuple[str, ...]:
    return (
        str(row.id)[:SHORTEST_PREFIX],
        f"{row.tenant_id}/{row.schedule_name}",
        in_utc(row.scheduled_for),
        row.state,
        f"{row.attempt} of {row.attempts_allowed}",
        _took(row.started_at, row.finished_at),
        row.reason or "",
    )


def show_details(details: ExecutionDetails, console: Console) -> None:
    """Print an execution with its attempts, from its scheduled time to its end."""
    row = details.execution
    title = Text(f"execution {row.id}  ", "bold").append(row.state, STYLES.get(row.state, "bold"))
    console.print(title)
    for line in _description(row):
        console.print(Text(visible(f"  {line}")), soft_wrap=True)
    for attempt in details.attempts:
        console.print(Text(f"  {_attempt(attempt)}"), soft_wrap=True)
        for line in (attempt.error or "").splitlines():
            console.print(Text(visible(f"      {line}".rstrip()), "dim"), soft_wrap=True)
        for line in (*_answer(attempt), *_output(attempt)):
            console.print(Text(visible(f"      {line}".rstrip()), "dim"), soft_wrap=True)
    console.print(Text(visible(f"  {_end(row)}")), soft_wrap=True)


def _description(row: ExecutionRow) -> Iterator[str]:
    """Yield the lines that describe an execution before its attempts."""
    yield f"{row.tenant_id}/{row.schedule_name}, saga {row.saga_name}"
    yield f"scheduled for {in_utc(row.scheduled_for)}, created at {in_utc(row.created_at)}"
    yield f"runs as {row.actor_id} ({row.actor_type}, {row.actor_source})"
    if row.missed_count and row.covers_from is not None:
        others = number_of(row.missed_count, "earlier occurrence")
        yield f"also covers {others} since {in_utc(row.covers_from)}"
    if row.losses:
        blamed = kills(row.suspicion)
        blame = f", the suspected cause {number_of(blamed, 'time')}" if blamed else ""
        yield f"lost with its worker {number_of(row.losses, 'time')}{blame}"
    if row.cancel_requested_at is not None:
        yield f"cancellation requested at {in_utc(row.cancel_requested_at)}: {row.cancel_reason}"


def _attempt(attempt: AttemptRow) -> str:
    took = _took(attempt.started_at, attempt.finished_at)
    return visible(
        f"attempt {attempt.attempt} {attempt.outcome} at {in_utc(attempt.finished_at)} "
        f"after {took} on {attempt.worker_id}"
    )


def _answer(attempt: AttemptRow) -> Iterator[str]:
    """Yield the recorded part of an HTTP response."""
    if attempt.http_status is None:
        return
    yield f"HTTP {attempt.http_status}" + (", response body:" if attempt.answer else "")
    for line in (attempt.answer or "").splitlines():
        yield f"  | {line}"


def _output(attempt: AttemptRow) -> Iterator[str]:
    """Yield the result of the handler and the end of its log."""
    if attempt.result is not None:
        yield f"result: {json.dumps(attempt.result, ensure_ascii=False)}"
    if attempt.log is not None:
        yield "log:"
        yield from (f"  | {line}" for line in attempt.log.splitlines())


def _end(row: ExecutionRow) -> str:
    """Return the current state and the next step."""
    reason = f": {row.reason}" if row.reason else ""
    ended = f"{row.state}{reason}" + (f", at {in_utc(row.finished_at)}" if row.finished_at else "")
    ref = f"{row.tenant_id}/{row.schedule_name}"
    match row.state:
        case State.PENDING:
            return f"pending since {in_utc(row.not_before)}: `tenantcron why {ref}` shows why"
        case State.RUNNING:
            since = in_utc(row.started_at) if row.started_at else ""
            return (
                f"attempt {row.attempt} of {row.attempts_allowed} running since {since} on "
                f"{row.worker_id}: `tenantcron execution cancel {row.id}` stops it"
            )
        case State.RETRYING if row.suspicion:
            return f"{ended}; it waits for its turn: `tenantcron why {ref}` shows for what"
        case State.RETRYING:
            return f"{ended}; the next attempt comes at {in_utc(row.not_before)}"
        case State.SUCCEEDED:
            return ended
        case _:
            return f"{ended}; `tenantcron execution retry {row.id}` runs it again"


def _took(started: datetime | None, finished: datetime | None) -> str:
    if started is None or finished is None:
        return ""
    took = finished - started
    seconds = took.total_seconds()
    return f"{seconds:.1f}s" if seconds < 60 else format_duration(took)
