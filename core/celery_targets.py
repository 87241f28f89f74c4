"""The options of Celery targets, and which tasks a tenant may send.

An entry of the policy's `allowed_celery_tasks` is `<queue>/<task>`. A trailing `*` of either part
matches the rest of the name: `billing/*` allows all tasks in one queue. `{tenant}` in a queue
is replaced by the tenant of the manifest.
"""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from tenantcron.core.allowed_names import matches
from tenantcron.core.durations import DurationError, parse_duration
from tenantcron.core.values import JsonObject

TASK_PATTERN: Final = "[A-Za-z_][A-Za-z0-9_]*([.-][A-Za-z0-9_]+)*"
TASK_EXPECTED: Final = "the name of a task such as billing.invoice"
LONGEST_TASK: Final = 255
QUEUE_PATTERN: Final = "[A-Za-z0-9_][A-Za-z0-9_.:-]*"
QUEUE_EXPECTED: Final = "the name of a queue: letters, digits, _ . : and -"
LONGEST_QUEUE: Final = 127
ENTRY_PATTERN: Final = r"[A-Za-z0-9_.:{}-]*\*?/[A-Za-z0-9_.-]*\*?"
ENTRY_EXPECTED: Final = "queue/task, such as billing/billing.invoice or reports/*"

DEFAULT_HEARTBEAT: Final = "1m"
DEFAULT_QUEUE_WAIT: Final = "5m"


class CeleryTarget(NamedTuple):
    """A task of a Celery app, in a queue that its workers consume."""

    task: str
    queue: str
    # The longest time between two heartbeats of the worker.
    heartbeat: timedelta
    # The longest time from the broker's confirmation to the first heartbeat.
    queue_wait: timedelta


def read_celery_target(options: JsonObject) -> CeleryTarget | None:
    """Read the options of a target; None if they are not valid."""
    match options:
        case {"task": str(task), "queue": str(queue)} if _are_names(task, queue):
            heartbeat = options.get("heartbeat", DEFAULT_HEARTBEAT)
            wait = options.get("queue_wait", DEFAULT_QUEUE_WAIT)
            try:
                durations = parse_duration(str(heartbeat)), parse_duration(str(wait))
            except DurationError:
                return None
            return CeleryTarget(task, queue, *durations)
        case _:
            return None


def _are_names(task: str, queue: str) -> bool:
    return (
        re.fullmatch(TASK_PATTERN, task) is not None
        and re.fullmatch(QUEUE_PATTERN, queue) is not None
    )


def may_send(target: CeleryTarget, entries: Iterable[str]) -> bool:
    """Whether the tenant's entries allow a task in a queue."""
    return any(_covers(entry, target) for entry in entries)


def _covers(entry: str, target: CeleryTarget) -> bool:
    queue, _, task = entry.partition("/")
    return matches(queue, target.queue) and matches(task, target.task)
