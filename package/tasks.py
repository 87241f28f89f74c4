"""Submit tasks in the caller's own transaction.

`submit` adds a task to the transaction of a connection and commits nothing: the task exists if and
only if the caller commits. `submit_async` does the same for async connections. The connection is
one of psycopg, or a connection or session of SQLAlchemy with the driver psycopg; it needs the role
`tenantcron_submit`, and nothing else.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Connection as EngineConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection as AsyncEngineConnection
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session
from typing_extensions import TypedDict, Unpack

from tenantcron.core.names import Owner
from tenantcron.core.targets import HttpTarget, OtherTarget, Target
from tenantcron.core.values import JsonObject
from tenantcron.schedules.settings import Priority, RetryPolicy
from tenantcron.schedules.task_request import TaskRequest, batch_json
from tenantcron.store.steps.submit import Submitted, TasksRejectedError, rejected

__all__ = [
    "HttpTarget",
    "OtherTarget",
    "Priority",
    "RetryPolicy",
    "Submitted",
    "TaskRequest",
    "TasksRejectedError",
    "submit",
    "submit_async",
    "submit_many",
    "submit_many_async",
]

AnyConnection: TypeAlias = psycopg.Connection[Any] | EngineConnection | Session
AnyAsyncConnection: TypeAlias = psycopg.AsyncConnection[Any] | AsyncEngineConnection | AsyncSession

# The time as microseconds: the caller's session can have any format of dates.
_SUBMIT: Final = """
SELECT id, state, (extract(epoch FROM execute_at) * 1000000)::bigint, existed
FROM tenantcron.submit_tasks(%(tenant)s::text, %(tasks)s::json) ORDER BY index
"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TaskFields(TypedDict, total=False):
    """What a task may have besides its tenant and its saga; see `TaskRequest`."""

    payload: JsonObject
    execute_at: datetime | None
    delay: timedelta | None
    priority: Priority | str
    idempotency_key: str | None
    retry: RetryPolicy | None
    timeout: timedelta | None
    owner: str | None
    # Without a saga, its kind is the saga.
    target: Target | None


def submit(
    connection: AnyConnection,
    *,
    tenant: str,
    saga: str | None = None,
    **fields: Unpack[TaskFields],
) -> Submitted:
    """Submit one task; raise a TasksRejectedError with all problems."""
    return submit_many(connection, tenant, [_request(saga, fields)])[0]


def submit_many(
    connection: AnyConnection, tenant: str, requests: Sequence[TaskRequest]
) -> list[Submitted]:
    """Submit up to 1,000 tasks of a tenant; all of them or, with an error, none."""
    parameters = {"tenant": tenant, "tasks": batch_json(requests)}
    try:
        if isinstance(connection, psycopg.Connection):
            with connection.cursor(row_factory=tuple_row, binary=True) as cursor:
                return _submitted(cursor.execute(_SUBMIT, parameters).fetchall())
        if isinstance(connection, Session):
            connection = connection.connection()
        return _submitted(connection.exec_driver_sql(_SUBMIT, parameters).all())
    except (psycopg.Error, DBAPIError) as error:
        raise _rejection(error) or error from error


async def submit_async(
    connection: AnyAsyncConnection,
    *,
    tenant: str,
    saga: str | None = None,
    **fields: Unpack[TaskFields],
) -> Submitted:
    """Submit one task; raise a TasksRejectedError with all problems."""
    return (await submit_many_async(connection, tenant, [_request(saga, fields)]))[0]


async def submit_many_async(
    connection: AnyAsyncConnection, tenant: str, requests: Sequence[TaskRequest]
) -> list[Submitted]:
    """Submit up to 1,000 tasks of a tenant; all of them or, with an error, none."""
    parameters = {"tenant": tenant, "tasks": batch_json(requests)}
    try:
        if isinstance(connection, psycopg.AsyncConnection):
            async with connection.cursor(row_factory=tuple_row, binary=True) as cursor:
                await cursor.execute(_SUBMIT, parameters)
                return _submitted(await cursor.fetchall())
        if isinstance(connection, AsyncSession):
            connection = await connection.connection()
        return _submitted((await connection.exec_driver_sql(_SUBMIT, parameters)).all())
    except (psycopg.Error, DBAPIError) as error:
        raise _rejection(error) or error from error


def _request(saga: str | None, fields: TaskFields) -> TaskRequest:
    owner = fields.get("owner")
    return TaskRequest(
        saga=saga,
        payload=fields.get("payload", {}),
        execute_at=fields.get("execute_at"),
        delay=fields.get("delay"),
        priority=Priority(fields.get("priority", Priority.MEDIUM)),
        idempotency_key=fields.get("idempotency_key"),
        retry=fields.get("retry"),
        timeout=fields.get("timeout"),
        owner=None if owner is None else Owner(owner),
        target=fields.get("target"),
    )


def _submitted(rows: Iterable[Sequence[Any]]) -> list[Submitted]:
    return [
        Submitted(task, state, _moment(microseconds), existed)
        for task, state, microseconds, existed in rows
    ]


# Most tasks of a batch are due at the same time.
@lru_cache(maxsize=1024)
def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _rejection(error: psycopg.Error | DBAPIError) -> TasksRejectedError | None:
    return rejected(error.orig if isinstance(error, DBAPIError) else error)
