"""Executions as text: a table, and the details of one execution."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.formats.wrapping import wrapped
from tenantcron.cli.moments import utc
from tenantcron.cli.tables import print_table
from tenantcron.core.durations import format_duration
from tenantcron.core.execution_ids import short_id, short_ids
from tenantcron.core.words import number_of, visible
from tenantcron.service.responses.shapes import (
    AttemptResponse,
    ExecutionDetailsResponse,
    ExecutionResponse,
)

STATE_STYLES = {
    "SUCCEEDED": "green",
    "DEAD": "bold red",
    "RETRYING": "yellow",
    "MISSED": "yellow",
    "SKIPPED": "yellow",
    "RUNNING": "cyan",
}


EXECUTION_COLUMNS = (
    Column("execution"),
    Column("schedule", Fit.NAME),
    Column("scheduled for"),
    Column("state", style=STATE_STYLES.get),
    Column("attempt", Fit.OPTIONAL),
    Column("took", Fit.OPTIONAL),
    Column("reason", Fit.PROSE, least=10, tightest=8),
)


def print_executions(executions: Sequence[ExecutionResponse], console: Console) -> None:
    """Print a table of executions."""
    print_table(console, EXECUTION_COLUMNS, execution_rows(executions))


def execution_rows(executions: Sequence[ExecutionResponse]) -> list[tuple[str, ...]]:
    """Return the cells of executions in a table."""
    ids = short_ids([execution["id"] for execution in executions])
    return [_cells(execution, id_) for execution, id_ in zip(executions, ids, strict=True)]


def _cells(execution: ExecutionResponse, id_: str) -> tuple[str, ...]:
    return (
        id_,
        _ref(execution),
        utc(execution["scheduled_for"]),
        execution["state"],
        f"{execution['attempt']} of {execution['attempts_allowed']}",
        _took(execution["started_at"], execution["finished_at"]),
        execution["reason"] or _progress(execution),
    )


def _progress(execution: ExecutionResponse) -> str:
    """Return what the remote worker of a running attempt reported last."""
    if execution["state"] != "RUNNING":
        return ""
    percent, text = execution["progress"], execution["progress_text"]
    return ", ".join(part for part in (None if percent is None else f"{percent} %", text) if part)


def _ref(execution: ExecutionResponse) -> str:
    return f"{execution['tenant']}/{execution['schedule']}"


def show_details(execution: ExecutionDetailsResponse, console: Console) -> None:
    """Print an execution with its attempts, from its scheduled time to its end."""
    state = execution["state"]
    title = Text(f"execution {execution['id']}  ", "bold")
    console.print(title.append(state, STATE_STYLES.get(state, "bold")))
    for line in _description(execution):
        print_sentence(line, console)
    print_attempts(execution["attempts"], console)
    print_sentence(_end(execution), console)


def print_sentence(text: str, console: Console) -> None:
    """Print a sentence about an execution, wrapped on a terminal."""
    for line in wrapped(text, first="  ", rest="    "):
        console.print(Text(line), soft_wrap=True)


def print_attempts(attempts: Iterable[AttemptResponse], console: Console) -> None:
    """Print attempts with their errors and outputs."""
    for attempt in attempts:
        print_sentence(_attempt(attempt), console)
        error = (attempt["error"] or "").splitlines()
        for line in (*error, *_answer(attempt), *_output(attempt)):
            console.print(Text(visible(f"      {line}".rstrip()), "dim"), soft_wrap=True)


def _description(execution: ExecutionResponse) -> Iterator[str]:
    """Yield the lines that describe an execution before its attempts."""
    actor = execution["actor"]
    yield f"{_ref(execution)}, saga {execution['saga']}"
    created = utc(execution["created_at"])
    yield f"scheduled for {utc(execution['scheduled_for'])}, created at {created}"
    yield f"runs as {actor['id']} ({actor['type']}, {actor['source']})"
    if execution["missed_count"] and execution["covers_from"] is not None:
        others = number_of(execution["missed_count"], "earlier occurrence")
        yield f"also covers {others} since {utc(execution['covers_from'])}"
    if execution["losses"]:
        blamed = execution["blamed"]
        blame = f", the suspected cause {number_of(blamed, 'time')}" if blamed else ""
        yield f"lost with its worker {number_of(execution['losses'], 'time')}{blame}"
    if execution["handed_over_at"] is not None:
        yield from _remote(execution)
    if execution["cancel_requested_at"] is not None:
        requested = utc(execution["cancel_requested_at"])
        yield f"cancellation requested at {requested}: {execution['cancel_reason']}"


def _remote(execution: ExecutionResponse) -> Iterator[str]:
    """Yield what the remote worker of the last attempt has reported."""
    last = execution["heartbeat_at"]
    reported = f"last report at {utc(last)}" if last else "no report yet"
    yield f"handed over to a remote worker at {utc(execution['handed_over_at'] or '')}, {reported}"
    percent, text = execution["progress"], execution["progress_text"]
    if percent is not None or text:
        parts = (None if percent is None else f"{percent} %", text)
        yield f"progress: {', '.join(part for part in parts if part)}"


def _attempt(attempt: AttemptResponse) -> str:
    took = _took(attempt["started_at"], attempt["finished_at"])
    return visible(
        f"attempt {attempt['attempt']} {attempt['outcome']} at {utc(attempt['finished_at'])} "
        f"after {took} on {attempt['worker']}"
    )


def _answer(attempt: AttemptResponse) -> Iterator[str]:
    """Yield the recorded part of an HTTP response."""
    if attempt["http_status"] is None:
        return
    body = attempt["answer"] or ""
    yield f"HTTP {attempt['http_status']}" + (", response body:" if body else "")
    for line in body.splitlines():
        yield f"  | {line}"


def _output(attempt: AttemptResponse) -> Iterator[str]:
    """Yield the result of the handler and the end of its log."""
    if attempt["result"] is not None:
        yield f"result: {json.dumps(attempt['result'], ensure_ascii=False)}"
    if attempt["log"] is not None:
        yield "log:"
        yield from (f"  | {line}" for line in attempt["log"].splitlines())


def _end(execution: ExecutionResponse) -> str:
    """Return the current state and the next step."""
    state, ref = execution["state"], _ref(execution)
    reason = f": {execution['reason']}" if execution["reason"] else ""
    finished_at = execution["finished_at"]
    ended = f"{state}{reason}" + (f", at {utc(finished_at)}" if finished_at else "")
    match state:
        case "PENDING":
            since = utc(execution["not_before"])
            return f"pending since {since}: `tenantcron why {ref}` shows why"
        case "RUNNING":
            since = utc(execution["started_at"]) if execution["started_at"] else ""
            return (
                f"attempt {execution['attempt']} of {execution['attempts_allowed']} running since "
                f"{since} on {execution['worker']}: `tenantcron execution cancel "
                f"{short_id(execution['id'])}` stops it"
            )
        case "RETRYING" if execution["suspect"]:
            return f"{ended}; it waits for its turn: `tenantcron why {ref}` shows for what"
        case "RETRYING":
            return f"{ended}; the next attempt comes at {utc(execution['not_before'])}"
        case "SUCCEEDED":
            return ended
        case _:
            return (
                f"{ended}; `tenantcron execution retry {short_id(execution['id'])}` runs it again"
            )


def _took(started: str | None, finished: str | None) -> str:
    if started is None or finished is None:
        return ""
    took = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    seconds = took.total_seconds()
    return f"{seconds:.1f}s" if seconds < 60 else format_duration(took)
