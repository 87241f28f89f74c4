"""Executions on a server."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tenantcron.cli.clusters.cluster import BatchRequest, ExecutionQuery
from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.client import ApiCall, bulk, executions, schedules
from tenantcron.core.errors import DeclinedError, NotFoundError
from tenantcron.core.execution_ids import ambiguous, is_complete, unknown
from tenantcron.core.names import TenantId
from tenantcron.service.responses.bulk_shapes import BulkExecutionsResponse
from tenantcron.service.responses.shapes import ExecutionDetailsResponse, ExecutionResponse

T = TypeVar("T")

# Enough to show that a prefix is ambiguous.
_CANDIDATES: Final = 4


@dataclass(frozen=True, slots=True)
class ServerExecutions:
    """The executions of a server."""

    caller: ServerCaller

    async def newest(self, query: ExecutionQuery, limit: int) -> Sequence[ExecutionResponse]:
        """Return the newest executions; a tenant or schedule that never existed is an error."""
        call = executions.list_all(
            tenant=query.tenant,
            schedule=query.schedule,
            states=query.states,
            since=query.since,
            until=query.until,
            saga=query.saga,
            error=query.error,
        )
        found = await self.caller.first(call, limit)
        if not found and query.tenant is not None:
            await self._require(query.tenant, query.schedule)
        return found

    async def _require(self, tenant: TenantId, schedule: str | None) -> None:
        """Raise NotFoundError if the tenant or the schedule does not exist."""
        if schedule is None:
            await self.caller.first(schedules.list_of(tenant), 1)
        else:
            await self.caller.send(schedules.show(tenant, schedule))

    async def show(self, prefix: str) -> ExecutionDetailsResponse:
        """Return an execution with its attempts."""
        return await self._send(prefix, executions.show)

    async def retry(self, prefix: str) -> ExecutionResponse:
        """Queue an execution again."""
        return await self._send(prefix, executions.retry)

    async def cancel(self, prefix: str, reason: str | None) -> ExecutionResponse:
        """Cancel an execution, or request it to stop."""
        return await self._send(prefix, lambda found: executions.cancel(found, reason))

    async def retry_batch(
        self, query: ExecutionQuery, batch: BatchRequest
    ) -> BulkExecutionsResponse:
        """Queue a batch of executions again; without states, DEAD ones."""
        return await self.caller.send(
            bulk.retry_executions(_selection(query), dry_run=batch.dry_run, after=batch.after)
        )

    async def cancel_batch(
        self, query: ExecutionQuery, reason: str | None, batch: BatchRequest
    ) -> BulkExecutionsResponse:
        """Cancel a batch of executions; without states, pending ones."""
        return await self.caller.send(
            bulk.cancel_executions(
                _selection(query), reason, dry_run=batch.dry_run, after=batch.after
            )
        )

    async def _send(self, prefix: str, call: Callable[[str], ApiCall[T]]) -> T:
        """Send a call about the only execution whose id has a prefix."""
        try:
            return await self.caller.send(call(await self._id(prefix)))
        except NotFoundError as error:
            raise NotFoundError(unknown(prefix)) from error

    async def _id(self, prefix: str) -> str:
        """Return the only id with a prefix."""
        if is_complete(prefix):
            return prefix.lower()
        found = await self.caller.first(
            executions.list_all(id_prefix=prefix.replace("-", "")), _CANDIDATES
        )
        if len(found) == 1:
            return found[0]["id"]
        ids = [execution["id"] for execution in found]
        raise DeclinedError(ambiguous(prefix, ids)) if ids else NotFoundError(unknown(prefix))


def _selection(query: ExecutionQuery) -> bulk.ExecutionSelection:
    return bulk.ExecutionSelection(
        tenant=query.tenant,
        schedule=query.schedule,
        saga=query.saga,
        states=query.states,
        since=query.since,
        until=query.until,
        error=query.error,
    )
