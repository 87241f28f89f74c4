"""Operate on tasks: submit, cancel, reschedule and retry, each in one transaction.

A waiting task that is cancelled gets a CANCELLED execution (`store.steps.submit`), so its end is
recorded like every other one. A task that was fired is an execution: it is cancelled and retried as
such, but a running one only on request.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.errors import NotFoundError, UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.core.values import JsonObject
from tenantcron.core.words import in_utc
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.operate.refusals import (
    OperationError,
    refuse_cancel,
    refuse_cancel_of_running,
)
from tenantcron.schedules.task_request import TaskRequest, batch_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, execution_history, executions, tasks
from tenantcron.store.rows.audit_records import EXECUTION, TASK
from tenantcron.store.rows.tasks import TaskRow, TaskState
from tenantcron.store.steps import fire_tasks, submit
from tenantcron.store.steps.submit import Submitted


class UnknownTaskError(NotFoundError):
    """No task has this id, or it is no longer in the retained history."""

    def __init__(self, task_id: UUID) -> None:
        super().__init__(f"task {task_id} does not exist", "`tenantcron task list` shows tasks")


@dataclass(frozen=True, slots=True)
class TaskOperator:
    """Changes tasks on behalf of an actor."""

    database: Database
    settings: Settings
    who: Attribution
    clock: Clock = database_clock

    async def submit(self, tenant: TenantId, requests: Sequence[TaskRequest]) -> list[Submitted]:
        """Submit tasks of a tenant; they are stored when this returns."""
        async with self._operator.acting() as connection:
            return await submit.submit(connection, tenant, batch_json(requests), self.clock())

    async def cancel(
        self, task_id: UUID, reason: str | None = None, *, force: bool = False
    ) -> TaskRow:
        """End a task that has not started; with `force`, ask a running one to stop."""
        await self._operator.prepare_history()
        async with self._operator.acting() as connection:
            found = await _locked(connection, task_id)
            if found.state is TaskState.WAITING:
                return await self._cancel_waiting(connection, found, reason)
        # It may have started since.
        refuse = refuse_cancel if force else refuse_cancel_of_running
        await self._operator.cancel(str(task_id), reason, refuse)
        return await self.show(task_id)

    async def reschedule(self, task_id: UUID, execute_at: datetime) -> TaskRow:
        """Change the time of a waiting task; a time in the past means at once."""
        if execute_at.tzinfo is None:
            raise UsageError("the new time of a task needs a time zone")
        async with self._operator.acting() as connection:
            found = await _locked(connection, task_id)
            if await tasks.is_too_far(connection, execute_at, self.clock()):
                raise UsageError("a task is at most 10 years ahead")
            if not await tasks.reschedule(connection, task_id, execute_at, self.clock()):
                raise OperationError(
                    f"task {task_id} is {found.state}: only a waiting task can be rescheduled"
                )
            changed = await _existing(connection, task_id)
            await self._record(
                connection,
                (TASK, found),
                "reschedule",
                before={"execute_at": in_utc(found.execute_at)},
                after={"execute_at": in_utc(changed.execute_at)},
            )
        return changed

    async def retry(self, task_id: UUID) -> TaskRow:
        """Queue a task again whose execution has ended without success."""
        await self.show(task_id)
        await self._operator.retry(str(task_id))
        return await self.show(task_id)

    async def show(self, task_id: UUID) -> TaskRow:
        """Return a task."""
        async with self.database.transaction() as connection:
            return await _existing(connection, task_id)

    @property
    def _operator(self) -> Operator:
        return Operator(self.database, self.settings, self.who, self.clock)

    async def _cancel_waiting(
        self, connection: AsyncConnection, found: TaskRow, reason: str | None
    ) -> TaskRow:
        why, at = self._operator.cancel_reason(reason), self.clock()
        await fire_tasks.fire_named(connection, found.id, at)
        fired = await execution_history.with_ids_between(connection, found.id, found.id, 1)
        await executions.cancel(connection, fired, reason=why, at=at)
        before: JsonObject = {
            "schedule": f"{found.tenant_id}/{fired[0].schedule_name}",
            "state": found.state.value,
            "execute_at": in_utc(found.execute_at),
        }
        await self._record(
            connection, (EXECUTION, found), "cancel", before=before, after={"reason": why}
        )
        return await _existing(connection, found.id)

    async def _record(
        self,
        connection: AsyncConnection,
        of: tuple[str, TaskRow],
        operation: str,
        *,
        before: JsonObject,
        after: JsonObject,
    ) -> None:
        entity, found = of
        await audit_records.record(
            connection,
            self.who,
            entity=(entity, str(found.id)),
            operation=operation,
            tenant=found.tenant_id,
            before=before,
            after=after,
        )


async def _existing(connection: AsyncConnection, task_id: UUID) -> TaskRow:
    found = await tasks.find(connection, task_id)
    if found is None:
        raise UnknownTaskError(task_id)
    return found


async def _locked(connection: AsyncConnection, task_id: UUID) -> TaskRow:
    found = await tasks.lock(connection, task_id)
    if found is None:
        raise UnknownTaskError(task_id)
    return found
