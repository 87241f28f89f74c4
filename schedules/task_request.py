"""A task as a client submits it, in typed form and as the JSON that the database reads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from tenantcron.core.durations import format_duration
from tenantcron.core.errors import UsageError
from tenantcron.core.names import Owner
from tenantcron.core.targets import Target
from tenantcron.core.values import JsonObject
from tenantcron.schedules.settings import (
    DEFAULTS,
    Priority,
    RetryPolicy,
    ScheduleSettings,
    read_settings,
    with_defaults,
)
from tenantcron.schedules.targets import write_target

# More are several batches.
MOST_IN_A_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """One-time work for a saga; without a time it is due at once.

    The database checks all values and reports all problems (`store.steps.submit`).
    """

    # None: the kind of the target.
    saga: str | None = None
    payload: JsonObject = field(default_factory=dict)
    # Aware. A time in the past means at once.
    execute_at: datetime | None = None
    delay: timedelta | None = None
    priority: Priority = Priority.MEDIUM
    # The same key returns the first task instead of submitting a second one.
    idempotency_key: str | None = None
    retry: RetryPolicy | None = None
    timeout: timedelta | None = None
    owner: Owner | None = None
    # None: a handler, or the platform's default target, runs the saga.
    target: Target | None = None

    def as_json(self) -> JsonObject:
        """Return what is given, as `tenantcron.submit_tasks` reads it."""
        given: JsonObject = {"saga": self.saga, "payload": self.payload}
        if self.execute_at is not None:
            given["execute_at"] = _moment(self.execute_at)
        if self.delay is not None:
            given["delay"] = f"{self.delay / timedelta(seconds=1):.6f} s"
        if self.priority is not Priority.MEDIUM:
            given["priority"] = self.priority.value
        if self.idempotency_key is not None:
            given["idempotency_key"] = self.idempotency_key
        if self.retry is not None:
            given["retry"] = _retry(self.retry)
        if self.timeout is not None:
            given["timeout"] = _duration(self.timeout)
        if self.owner is not None:
            given["owner"] = self.owner
        if self.target is not None:
            given |= write_target(self.target)
        return given


_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode
_encode_ascii: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def batch_json(requests: Sequence[TaskRequest]) -> str:
    """Return a batch as JSON; raise a UsageError if a payload is none."""
    given = [request.as_json() for request in requests]
    try:
        text = _encode(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the payload of a task is not JSON: {error}") from error
    # An unpaired surrogate has no UTF-8. Escaped, the database rejects it with its place.
    return text if _is_unicode(text) else _encode_ascii(given)


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def task_settings(definition: JsonObject | None) -> ScheduleSettings:
    """Read the settings of a stored task, without its payload."""
    return DEFAULTS if definition is None else read_settings(with_defaults(definition))


@lru_cache(maxsize=1024)
def _moment(time: datetime) -> str:
    if time.tzinfo is None:
        raise UsageError(f"execute_at {time.isoformat()} has no time zone: use an aware datetime")
    return time.isoformat()


def _retry(retry: RetryPolicy) -> JsonObject:
    return {
        "max_attempts": retry.max_attempts,
        "backoff": _duration(retry.backoff),
        "max_backoff": _duration(retry.max_backoff),
    }


def _duration(span: timedelta) -> str:
    """Write a duration exactly; the database rejects fractions of a second."""
    if span < timedelta(0) or span.microseconds:
        return f"{span / timedelta(seconds=1):.6f}s"
    return format_duration(span)
