"""Checks before executions are queued again, for any number of them with three statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.scheduler.operate.refusals import (
    OperationError,
    refuse_closed,
    refuse_disabled,
    refuse_retry,
)
from tenantcron.scheduler.steps.definitions import (
    DefinitionResult,
    Definitions,
    UnreadableError,
)
from tenantcron.store.rows import schedule_cursors, tenants
from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.tenants import TenantRow


@dataclass(frozen=True, slots=True)
class RetryChecks:
    """What decides whether executions can be queued again."""

    tenants: dict[TenantId, TenantRow]
    cursors: dict[UUID, CursorRow]
    definitions: dict[UUID, DefinitionResult]

    def attempts_of(self, row: ExecutionRow) -> int:
        """Return how many attempts a retry gets; raise OperationError if it is not possible."""
        refuse_retry(row)
        refuse_closed(self._tenant_of(row))
        if not row.is_task:
            refuse_disabled(self._cursor_of(row), row)
        definition = self.definitions[row.definition_id]
        if isinstance(definition, UnreadableError):
            raise OperationError(str(definition))
        return definition.settings.retry.max_attempts

    def _tenant_of(self, row: ExecutionRow) -> TenantRow:
        tenant = self.tenants.get(row.tenant_id)
        if tenant is None:
            raise OperationError(
                f"the row of tenant `{row.tenant_id}` was deleted, so its executions cannot start: "
                f"run `tenantcron tenant create {row.tenant_id}` first"
            )
        return tenant

    def _cursor_of(self, row: ExecutionRow) -> CursorRow:
        cursor = self.cursors.get(row.schedule_id)
        if cursor is None or cursor.schedule_name != row.schedule_name:
            raise OperationError(
                f"the schedule of execution {row.id} has been deleted: apply a manifest with "
                f"`{row.schedule_name}`, then run `tenantcron schedule trigger`"
            )
        return cursor


async def read_retry_checks(
    connection: AsyncConnection, rows: Sequence[ExecutionRow]
) -> RetryChecks:
    """Read what the checks of executions need.

    The cursors are not locked, because this is only an early error message: if a schedule is
    removed concurrently, the claim ends its pending executions.
    """
    of_tenants = await tenants.find_many(connection, {row.tenant_id for row in rows})
    cursors = await schedule_cursors.with_ids(connection, {row.schedule_id for row in rows})
    definitions = await Definitions().read(connection, {row.definition_id for row in rows})
    by_id = {cursor.schedule_id: cursor for cursor in cursors}
    return RetryChecks(of_tenants, by_id, definitions)
