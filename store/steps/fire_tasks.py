"""Fire due tasks, the database side; `submit` has the protocol."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.model import TASK
from tenantcron.store.steps.statements import statement


async def fire_due(
    connection: AsyncConnection,
    batch: int,
    *,
    ahead: timedelta,
    retention: timedelta,
    at: datetime | None,
) -> dict[str, int]:
    """Fire tasks that are due, or will be in that time; return their number by requirement.

    A time before the retained history moves to its beginning.
    """
    parameters: dict[str, object] = {
        "batch": batch,
        "id": None,
        "ahead": ahead,
        "retention": retention,
        "at": at,
    }
    return await _fire(connection, parameters)


async def fire_named(connection: AsyncConnection, task: UUID, at: datetime | None) -> bool:
    """Fire one task, whenever it is due; False if it was fired before."""
    parameters: dict[str, object] = {
        "batch": 1,
        "id": task,
        "ahead": None,
        "retention": None,
        "at": at,
    }
    found = await _fire(connection, parameters)
    return bool(found)


async def _fire(connection: AsyncConnection, parameters: dict[str, object]) -> dict[str, int]:
    rows = await connection.exec_driver_sql(statement("fire_tasks"), {**parameters, "source": TASK})
    return {row.requires: row.number for row in rows}
