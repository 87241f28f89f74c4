"""What commands can do with a cluster."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tenantcron.cli.clusters.platform import (
    InspectOperations,
    KeyOperations,
    LimitOperations,
    TenantOperations,
    TokenOperations,
    WebhookOperations,
)
from tenantcron.cli.clusters.tasks import TaskOperations
from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.service.responses.bulk_shapes import BulkExecutionsResponse, BulkSchedulesResponse
from tenantcron.service.responses.shapes import (
    ExecutionDetailsResponse,
    ExecutionResponse,
    PausedResponse,
    ResumedResponse,
    ScheduleDetailsResponse,
    ScheduleResponse,
    TriggeredResponse,
    WhyResponse,
)


@dataclass(frozen=True, slots=True)
class ExecutionQuery:
    """Filters of a list of executions; None and an empty list match all."""

    tenant: TenantId | None
    schedule: str | None
    states: Sequence[str]
    since: datetime | None
    until: datetime | None
    saga: str | None = None
    # A part of the reason.
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """Which batch of a bulk operation: the position of the last one, or a dry run."""

    dry_run: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleQuery:
    """Filters of a bulk operation on schedules; None matches all."""

    tenant: TenantId | None
    saga: str | None
    paused_reason: str | None = None


@dataclass(frozen=True, slots=True)
class NewPause:
    """The pause of a bulk operation."""

    reason: str
    until: datetime | None
    cancel_pending: bool


class ExecutionOperations(Protocol):
    """Executions. An id may be abbreviated to its first characters."""

    async def newest(self, query: ExecutionQuery, limit: int) -> Sequence[ExecutionResponse]:
        """Return the newest executions; a tenant or schedule that never existed is an error."""

    async def show(self, prefix: str) -> ExecutionDetailsResponse:
        """Return an execution with its attempts."""

    async def retry(self, prefix: str) -> ExecutionResponse:
        """Queue an execution again."""

    async def cancel(self, prefix: str, reason: str | None) -> ExecutionResponse:
        """Cancel an execution, or request it to stop."""

    async def retry_batch(
        self, query: ExecutionQuery, batch: BatchRequest
    ) -> BulkExecutionsResponse:
        """Queue a batch of executions again; without states, DEAD ones."""

    async def cancel_batch(
        self, query: ExecutionQuery, reason: str | None, batch: BatchRequest
    ) -> BulkExecutionsResponse:
        """Cancel a batch of executions; without states, pending ones."""


@dataclass(frozen=True, slots=True)
class TenantSchedules:
    """The schedules of a tenant, or why its schema cannot be read."""

    tenant: str
    schedules: Sequence[ScheduleResponse]
    error: str | None = None


class ScheduleOperations(Protocol):
    """Schedules."""

    def pages(self, tenant: TenantId | None) -> AsyncIterator[Sequence[TenantSchedules]]:
        """Yield the schedules of a tenant that must exist, or of all tenants by id."""

    async def show(self, ref: ScheduleRef) -> ScheduleDetailsResponse:
        """Return a schedule with its state, last executions and last changes."""

    async def why(self, ref: ScheduleRef) -> WhyResponse:
        """Return why a schedule did not run."""

    async def pause(
        self, ref: ScheduleRef, reason: str, until: datetime | None, *, cancel_pending: bool
    ) -> PausedResponse:
        """Pause a schedule."""

    async def resume(self, ref: ScheduleRef, reason: str | None) -> ResumedResponse:
        """Resume a schedule."""

    async def trigger(self, ref: ScheduleRef, reason: str | None) -> TriggeredResponse:
        """Run a schedule once."""

    async def pause_batch(
        self, query: ScheduleQuery, pause: NewPause, batch: BatchRequest
    ) -> BulkSchedulesResponse:
        """Pause a batch of schedules that are not paused."""

    async def resume_batch(
        self, query: ScheduleQuery, reason: str | None, batch: BatchRequest
    ) -> BulkSchedulesResponse:
        """Resume a batch of paused schedules."""


class ClusterAccess(Protocol):
    """A cluster, as seen by commands."""

    @property
    def executions(self) -> ExecutionOperations:
        """Its executions."""

    @property
    def schedules(self) -> ScheduleOperations:
        """Its schedules."""

    @property
    def tasks(self) -> TaskOperations:
        """Its tasks."""

    @property
    def tenants(self) -> TenantOperations:
        """Its tenants."""

    @property
    def limits(self) -> LimitOperations:
        """Its concurrency limits."""

    @property
    def tokens(self) -> TokenOperations:
        """Its API tokens."""

    @property
    def keys(self) -> KeyOperations:
        """Its signing keys."""

    @property
    def webhooks(self) -> WebhookOperations:
        """Its webhooks."""

    @property
    def inspection(self) -> InspectOperations:
        """Its health and its records."""

    async def now(self) -> datetime:
        """Return the time of the cluster's clock, from which relative times are computed."""
