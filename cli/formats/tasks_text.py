"""Tasks as text: a table, and the details of one task."""

import json
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.formats.executions_text import (
    STATE_STYLES,
    print_attempts,
    print_sentence,
)
from tenantcron.cli.moments import utc
from tenantcron.cli.tables import print_table
from tenantcron.core.execution_ids import short_ids
from tenantcron.core.words import number_of, shortened, visible
from tenantcron.service.responses.task_shapes import WAITING, TaskDetailsResponse, TaskResponse

# As the other commands take it.
TASK_COLUMNS = (
    Column("task"),
    Column("saga", Fit.NAME, least=6),
    Column("execute at"),
    Column("state", style=STATE_STYLES.get),
    Column("priority", Fit.OPTIONAL),
    Column("reason", Fit.PROSE, least=10, tightest=8),
)
_LONGEST_PAYLOAD = 2_000


def print_tasks(tasks: Sequence[TaskResponse], console: Console) -> None:
    """Print a table of tasks."""
    ids = short_ids([task["id"] for task in tasks])
    rows = [_cells(task, id_) for task, id_ in zip(tasks, ids, strict=True)]
    print_table(console, TASK_COLUMNS, rows)


def _cells(task: TaskResponse, id_: str) -> tuple[str, ...]:
    return (
        f"{task['tenant']}/{id_}",
        task["saga"],
        utc(task["execute_at"]),
        task["state"],
        task["priority"],
        task["reason"] or "",
    )


def show_task(task: TaskDetailsResponse, console: Console) -> None:
    """Print a task with its input and its attempts."""
    state = task["state"]
    title = Text(f"task {task['id']}  ", "bold")
    console.print(title.append(state, STATE_STYLES.get(state, "bold")))
    for line in _description(task):
        print_sentence(line, console)
    payload = shortened(json.dumps(task["payload"], ensure_ascii=False), _LONGEST_PAYLOAD)
    console.print(Text(visible(f"  payload {payload}")), soft_wrap=True)
    print_attempts(task["attempts"], console)
    print_sentence(_next_step(task), console)


def _description(task: TaskDetailsResponse) -> Iterator[str]:
    actor = task["actor"]
    yield f"{task['tenant']}, saga {task['saga']}, priority {task['priority']}"
    yield f"executes at {utc(task['execute_at'])}, submitted at {utc(task['submitted_at'])}"
    yield f"submitted by {actor['id']} ({actor['type']}, {actor['source']})"
    if task["owner"]:
        yield f"on behalf of {task['owner']}"
    if task["idempotency_key"]:
        yield f"idempotency key {task['idempotency_key']}"
    if task["target"] is not None:
        yield f"target {', '.join(task['target'])}"
    yield f"timeout {task['timeout']}, at most {number_of(task['max_attempts'], 'attempt')}"


def _next_step(task: TaskResponse) -> str:
    """Return the current state, and the command that changes it."""
    ref, state = f"{task['tenant']}/{task['id']}", task["state"]
    reason = f": {task['reason']}" if task["reason"] else ""
    finished = f", at {utc(task['finished_at'])}" if task["finished_at"] else ""
    match state:
        case _ if state == WAITING:
            return f"waits for its time: `tenantcron task cancel {ref}` cancels it"
        case "PENDING" | "RETRYING":
            return f"{state}{reason}: `tenantcron task cancel {ref}` cancels it"
        case "RUNNING":
            return f"attempt {task['attempt']} is running: `task cancel {ref} --force` stops it"
        case "SUCCEEDED":
            return f"{state}{finished}"
        case _:
            return f"{state}{reason}{finished}; `tenantcron task retry {ref}` runs it again"
