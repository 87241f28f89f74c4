"""The concurrency limits of the cluster: read them, or set those of an operator."""

from collections.abc import Mapping
from typing import Final

from tenantcron.scheduler.operate.operator import Operator
from tenantcron.service.responses.limits import limits_as_json
from tenantcron.service.responses.platform_shapes import LimitsResponse
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_history, limits

# The limits by the name that users see, and their columns.
COLUMNS: Final = {"max_concurrent": "operator", "max_concurrent_per_tenant": "operator_per_tenant"}


async def read_limits(database: Database) -> LimitsResponse:
    """Return the limits, and how many executions run."""
    async with database.transaction() as connection:
        found = await limits.read(connection)
        running = await execution_history.running_overall(connection)
    return limits_as_json(found, running)


async def set_limits(
    operator: Operator, values: Mapping[str, int | None], reason: str | None
) -> LimitsResponse:
    """Set limits by name; None restores the declared limit. Return the limits in effect."""
    await operator.set_limits({COLUMNS[name]: value for name, value in values.items()}, reason)
    return await read_limits(operator.database)
