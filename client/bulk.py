"""Calls for bulk operations.

    wanted = bulk.ExecutionSelection(saga="invoice", states=["DEAD"])
    done = cron.send(bulk.retry_executions(wanted))
    while done["next"] is not None:
        done = cron.send(bulk.retry_executions(wanted, after=done["next"]))

A call changes one batch. If it is interrupted, the same calls again do the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tenantcron.client.calls import ApiCall, body_of, path_of
from tenantcron.core.values import JsonObject
from tenantcron.service.responses.bulk_shapes import BulkExecutionsResponse, BulkSchedulesResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSelection:
    """Filters of executions, at least one; without states, those that the operation is for."""

    tenant: str | None = None
    schedule: str | None = None
    saga: str | None = None
    states: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    # A part of the reason; used together with another filter.
    error: str | None = None

    def body(self) -> JsonObject:
        """Return the filters as members of a body."""
        states: JsonObject = {"states": list(self.states)} if self.states else {}
        return states | body_of(
            tenant=self.tenant,
            schedule=self.schedule,
            saga=self.saga,
            since=self.since,
            until=self.until,
            error=self.error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSelection:
    """Filters of schedules, at least one."""

    tenant: str | None = None
    saga: str | None = None

    def body(self) -> JsonObject:
        """Return the filters as members of a body."""
        return body_of(tenant=self.tenant, saga=self.saga)


def retry_executions(
    wanted: ExecutionSelection, *, dry_run: bool = False, after: str | None = None
) -> ApiCall[BulkExecutionsResponse]:
    """Retry a batch of ended executions, DEAD ones unless states are given."""
    body = wanted.body() | body_of(dry_run=dry_run, after=after)
    return ApiCall("POST", path_of("executions:retry"), BulkExecutionsResponse, body=body)


def cancel_executions(
    wanted: ExecutionSelection,
    reason: str | None = None,
    *,
    dry_run: bool = False,
    after: str | None = None,
) -> ApiCall[BulkExecutionsResponse]:
    """Cancel a batch of executions, pending ones unless states are given."""
    body = wanted.body() | body_of(reason=reason, dry_run=dry_run, after=after)
    return ApiCall("POST", path_of("executions:cancel"), BulkExecutionsResponse, body=body)


def pause_schedules(
    wanted: ScheduleSelection,
    reason: str,
    *,
    until: datetime | None = None,
    cancel_pending: bool = False,
    dry_run: bool = False,
    after: str | None = None,
) -> ApiCall[BulkSchedulesResponse]:
    """Pause a batch of schedules that are not paused yet."""
    body = wanted.body() | body_of(
        reason=reason, until=until, cancel_pending=cancel_pending, dry_run=dry_run, after=after
    )
    return ApiCall("POST", path_of("schedules:pause"), BulkSchedulesResponse, body=body)


def resume_schedules(
    wanted: ScheduleSelection,
    reason: str | None = None,
    *,
    paused_reason: str | None = None,
    dry_run: bool = False,
    after: str | None = None,
) -> ApiCall[BulkSchedulesResponse]:
    """Resume a batch of paused schedules, or only of those that were paused for a reason."""
    body = wanted.body() | body_of(
        reason=reason, paused_reason=paused_reason, dry_run=dry_run, after=after
    )
    return ApiCall("POST", path_of("schedules:resume"), BulkSchedulesResponse, body=body)
