"""Check the tasks that clients submit, and turn them into requests for the database.

The API and the command line use the same rules: those of manifests, with the policy of the process
that receives the submission. The database checks what it decides: the tenant, quotas and keys.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, assert_never

from tenantcron.core.errors import DeclinedError, TenantcronError, UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject, JsonValue, has_nul
from tenantcron.manifests.diagnostics import Fault
from tenantcron.manifests.policy import Policy
from tenantcron.manifests.task_definitions import CheckedTask, check_task, saga_of
from tenantcron.schedules.task_request import TaskRequest
from tenantcron.store.steps.submit import Rejection, TaskProblem, TasksRejectedError
from tenantcron.targets.faults import storable
from tenantcron.tenants.errors import TenantError, UnknownTenantError

_WHAT: Final = "the submission does not follow the rules of the platform"
_KEY: Final = "idempotency_key"
# Quotas of what has not started. That of a single payload stays as it is.
_FREED_BY_STARTS: Final = frozenset({"pending_tasks", "stored_bytes"})
_canonical = json.JSONEncoder(sort_keys=True).encode
_plain = json.JSONEncoder(ensure_ascii=False).encode


class InvalidTaskError(UsageError):
    """Submitted tasks that do not follow the rules; `errors` has the field of each problem."""

    def __init__(self, errors: Sequence[dict[str, str]]) -> None:
        lines = (f"  {error['name']}: {error['message']}" for error in errors)
        super().__init__("\n".join([_WHAT, *lines]))
        self.detail, self.errors = _WHAT, errors


class KeyConflictError(DeclinedError):
    """The idempotency key belongs to a task with another request."""


class OverQuotaError(DeclinedError):
    """A quota rejects the submission; `errors` has its name as the code of each problem."""

    def __init__(self, detail: str, errors: Sequence[dict[str, str]]) -> None:
        super().__init__(detail)
        self.errors = errors

    @property
    def is_temporary(self) -> bool:
        """Whether the same request is accepted when tasks have started."""
        return any(error["code"] in _FREED_BY_STARTS for error in self.errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedOptions:
    """A task as a client describes it: `options` as in a manifest, not checked yet."""

    # The keys `saga`, `target`, `priority`, `timeout`, `retry` and `owner`, if given.
    options: JsonObject
    payload: Mapping[str, JsonValue] = field(default_factory=dict)
    execute_at: datetime | None = None
    delay: timedelta | None = None
    idempotency_key: str | None = None


class SubmissionRules:
    """The rules of a policy for tasks. Most tasks of a client have the same options."""

    def __init__(self, policy: Policy) -> None:
        def check(tenant: TenantId, options: str) -> CheckedTask:
            return check_task(tenant, json.loads(options), policy)

        self._check: Callable[[TenantId, str], CheckedTask] = lru_cache(maxsize=1024)(check)

    def requests(
        self, tenant: TenantId, tasks: Sequence[SubmittedOptions], *, is_batch: bool = False
    ) -> list[TaskRequest]:
        """Return requests for the database; raise InvalidTaskError with all problems."""
        checked = [self._check(tenant, _canonical(task.options)) for task in tasks]
        errors = [
            error
            for index, (task, result) in enumerate(zip(tasks, checked, strict=True))
            for error in _errors(task, result, f"tasks.{index}." if is_batch else "")
        ]
        if errors:
            raise InvalidTaskError(errors)
        return [_request(task, result) for task, result in zip(tasks, checked, strict=True)]


@contextmanager
def declining(*, is_batch: bool = False) -> Iterator[None]:
    """Raise the rejections of the database as errors of the service."""
    try:
        yield
    except TasksRejectedError as rejected:
        raise _declined(rejected, is_batch=is_batch) from rejected


def _declined(rejected: TasksRejectedError, *, is_batch: bool) -> TenantcronError:
    match rejected.rejection:
        case Rejection.INVALID:
            return InvalidTaskError([_error(problem, is_batch) for problem in rejected.problems])
        case Rejection.UNKNOWN_TENANT:
            return UnknownTenantError(str(rejected))
        case Rejection.OVER_QUOTA:
            return OverQuotaError(
                str(rejected), [_error(problem, is_batch) for problem in rejected.problems]
            )
        case Rejection.CONFLICT if any(problem.field == _KEY for problem in rejected.problems):
            return KeyConflictError(str(rejected))
        case Rejection.CONFLICT:
            return TenantError(str(rejected))
        case _:
            assert_never(rejected.rejection)


def _error(problem: TaskProblem, is_batch: bool) -> dict[str, str]:
    field, index = problem.field or "tasks", problem.index
    name = f"tasks.{index}.{field}" if is_batch and index is not None else field
    return {"in": "body", "name": name, "message": problem.message, "code": problem.code}


def _request(task: SubmittedOptions, checked: CheckedTask) -> TaskRequest:
    if checked.definition is None:
        raise InvalidTaskError([])
    settings, options = checked.definition.settings, task.options
    return TaskRequest(
        saga=str(saga_of(options)),
        payload=dict(task.payload),
        execute_at=task.execute_at,
        delay=task.delay,
        priority=settings.priority,
        idempotency_key=task.idempotency_key,
        # What is not given has the default at the time of the execution.
        retry=settings.retry if "retry" in options else None,
        timeout=settings.timeout if "timeout" in options else None,
        owner=settings.owner,
        target=checked.definition.target,
    )


def _errors(task: SubmittedOptions, checked: CheckedTask, place: str) -> Iterator[dict[str, str]]:
    if not _is_storable(task.payload):
        message = "has a NUL or an unpaired surrogate, which cannot be stored"
        yield {"in": "body", "name": f"{place}payload", "message": message, "code": "TC009"}
    for fault in checked.faults:
        name = place + ".".join(map(str, fault.pointer))
        yield {"in": "body", "name": name, "message": _message(fault), "code": fault.code}


def _is_storable(payload: Mapping[str, JsonValue]) -> bool:
    text = _plain(payload)
    # A backslash before `u0000` may be text itself, so only then all strings are read.
    return storable(text) == text and ("\\u0000" not in text or not has_nul(dict(payload)))


def _message(fault: Fault) -> str:
    return f"{fault.message} ({fault.hint})" if fault.hint else fault.message
