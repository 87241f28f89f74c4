"""Bodies of requests about tasks.

They have types and sizes only. `service.submissions` checks the values with the rules of manifests.
"""

from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from tenantcron.api.inputs import Duration, Moment, OptionalReason
from tenantcron.core.durations import parse_duration
from tenantcron.schedules.task_request import MOST_IN_A_BATCH
from tenantcron.service.responses.task_shapes import PRIORITIES
from tenantcron.service.submissions import SubmittedOptions
from tenantcron.store.rows.idempotency_keys import LONGEST_KEY

_KEY: Final = r"^[!-~]+$"
_LONGEST: Final = 512
_OPTIONS: Final = ("saga", "target", "priority", "timeout", "retry", "owner")


def _not_a_number(value: object) -> object:
    if isinstance(value, int | float):
        raise ValueError("not an ISO 8601 time such as 2026-12-01T09:00:00Z")  # noqa: TRY004 -- pydantic
    return value


class _Body(BaseModel):
    """A JSON body without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class RetryBody(_Body):
    """What happens after a failed attempt; absent fields have the defaults of schedules."""

    max_attempts: int | None = None
    backoff: Annotated[str, Field(max_length=_LONGEST, examples=["1s"])] | None = None
    max_backoff: Annotated[str, Field(max_length=_LONGEST, examples=["1m"])] | None = None


class ExecuteAt(_Body):
    """When a task executes: at a time, or after a delay."""

    execute_at: Annotated[Moment, BeforeValidator(_not_a_number)] | None = None
    delay: Annotated[Duration, Field(examples=["2h"])] | None = None

    @model_validator(mode="after")
    def _one_time(self) -> "ExecuteAt":
        if self.execute_at is not None and self.delay is not None:
            raise ValueError("give `execute_at` or `delay`, not both")
        return self


class NewTask(ExecuteAt):
    """A task to submit. Without `execute_at` and `delay` it is due at once."""

    saga: (
        Annotated[
            str,
            Field(
                max_length=_LONGEST,
                examples=["send_invoice"],
                description="Without it, the kind of the target.",
            ),
        ]
        | None
    ) = None
    payload: Annotated[dict[str, JsonValue], Field(description="The input of the saga.")] | None = (
        None
    )
    priority: (
        Annotated[str, Field(max_length=_LONGEST, json_schema_extra={"enum": list(PRIORITIES)})]
        | None
    ) = None
    idempotency_key: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=LONGEST_KEY,
                pattern=_KEY,
                description="Unique per tenant: the same key again returns the first task.",
            ),
        ]
        | None
    ) = None
    retry: RetryBody | None = None
    timeout: Annotated[str, Field(max_length=_LONGEST, examples=["5m"])] | None = None
    owner: Annotated[str, Field(max_length=_LONGEST, examples=["user:maria"])] | None = None
    target: (
        Annotated[
            dict[str, JsonValue],
            Field(description="As in a manifest; without it, a handler runs the saga."),
        ]
        | None
    ) = None

    def as_options(self) -> SubmittedOptions:
        """Return the task for `SubmissionRules`."""
        dumped = self.model_dump(include=set(_OPTIONS), exclude_none=True)
        return SubmittedOptions(
            options=dumped,
            payload=self.payload or {},
            execute_at=self.execute_at,
            delay=_delay(self.delay),
            idempotency_key=self.idempotency_key,
        )


class NewTasks(_Body):
    """Tasks to submit: all of them, or none."""

    tasks: Annotated[list[NewTask], Field(min_length=1, max_length=MOST_IN_A_BATCH)]


class Rescheduling(ExecuteAt):
    """The new time of a waiting task."""

    @model_validator(mode="after")
    def _some_time(self) -> "Rescheduling":
        if self.execute_at is None and self.delay is None:
            raise ValueError("give `execute_at` or `delay`")
        return self


def after_now(given: ExecuteAt, now: datetime) -> datetime:
    """Return the time that is given, or that follows from the delay."""
    return given.execute_at or now + (_delay(given.delay) or timedelta(0))


def _delay(text: str | None) -> timedelta | None:
    return None if text is None else parse_duration(text)


class TaskCancellation(OptionalReason):
    """Why a task is cancelled; `force` also stops a running one."""

    force: bool = False


NO_CANCELLATION: Final = TaskCancellation()
