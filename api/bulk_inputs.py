"""Bodies of bulk operations. A body without any filter is an error: it would match everything."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tenantcron.api.inputs import LONGEST_REASON, Body, Moment, Reason
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN

_Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
# Not strict, because a time in JSON is a string.
_Time = Annotated[Moment, Field(strict=False)]
_LONGEST_POSITION = 1_000


class _Bulk(Body):
    """What all bulk operations take."""

    filters: ClassVar[tuple[str, ...]] = ()

    tenant: (
        Annotated[str, Field(pattern=f"^{TENANT_PATTERN}$", description="Filter by tenant.")] | None
    ) = None
    saga: Annotated[_Name, Field(description="Filter by saga.")] | None = None
    dry_run: Annotated[bool, Field(description="Show what matches and change nothing.")] = False
    after: (
        Annotated[
            str,
            Field(max_length=_LONGEST_POSITION, description="The `next` of the previous batch."),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _has_filter(self) -> "_Bulk":
        if all(getattr(self, name) is None for name in self.filters):
            names = ", ".join(f"`{name}`" for name in self.filters)
            raise ValueError(f"set at least one filter: {names}")
        return self


class _BulkExecutions(_Bulk):
    filters = ("tenant", "schedule", "saga", "states", "since", "until")

    schedule: Annotated[_Name, Field(description="Filter by schedule name.")] | None = None
    since: Annotated[_Time, Field(description="Scheduled at or after this time.")] | None = None
    until: Annotated[_Time, Field(description="Scheduled before this time.")] | None = None
    # Not one of `filters`: it has no index, so another filter must limit what is read.
    error: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=LONGEST_REASON,
                description="Filter by a part of the reason, in upper or lower case.",
            ),
        ]
        | None
    ) = None


class BulkRetry(_BulkExecutions):
    """The executions to retry: DEAD ones, unless `states` is set."""

    states: (
        Annotated[
            list[Literal["DEAD", "CANCELLED", "SKIPPED", "MISSED"]],
            Field(min_length=1, max_length=4),
        ]
        | None
    ) = None


class BulkCancel(_BulkExecutions):
    """The executions to cancel: PENDING and RETRYING ones, unless `states` is set."""

    states: (
        Annotated[
            list[Literal["PENDING", "RETRYING", "RUNNING"]], Field(min_length=1, max_length=3)
        ]
        | None
    ) = None
    reason: Reason | None = None


class BulkPause(_Bulk):
    """The schedules to pause, and the pause. Schedules that are already paused do not match."""

    filters = ("tenant", "saga")

    reason: Reason
    until: _Time | None = None
    cancel_pending: bool = False


class BulkResume(_Bulk):
    """The paused schedules to resume."""

    filters = ("tenant", "saga", "paused_reason")

    paused_reason: (
        Annotated[Reason, Field(description="Filter by the exact reason of the pause.")] | None
    ) = None
    reason: Reason | None = None
