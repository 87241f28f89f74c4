"""Submit: add tasks, which are one-time work for a moment.

A task is a cursor with one occurrence. Its row is the submission; its execution is the rest.

- **Submit.** The function `tenantcron.submit_tasks` is the only writer. It runs in the transaction
  of its caller, so tasks exist if and only if that commits. It accepts a batch or rejects it with
  all problems. A task that is due now gets its execution in the same call.
- **Fire.** One statement marks tasks that are due within seconds (`fired_at`) and inserts their
  executions, which start at the time of the task (`fire_tasks.sql`). Rows that another replica
  fires at the same time are skipped. If the replica is killed before the commit, nothing happened;
  if after it, everything.
- **Cancel.** A waiting task is fired, and its execution cancelled, in one transaction. So a task
  has exactly one execution as soon as `fired_at` is set.
- **Reschedule.** It changes `execute_at` of a waiting task. The row lock orders it with fire: the
  second one finds the task fired, or not due.

The execution has the id of its task as id, `schedule_id` and `definition_id`; no execution of a
schedule has `id = schedule_id`. Its `scheduled_for` is `least(execute_at, fired_at)`: only a task
that is cancelled before its time is fired earlier, and future months have no partition.

A key is unique in its tenant. A second submission with it waits for the transaction of the first.
If that commits, it returns the same task (`existed`), or a conflict if its request differs; if that
is rolled back, it submits. Keys are kept as long as the rows of their tasks.

The quotas of pending tasks and of their bytes compare upper bounds, which `tenant_pending` has for
each tenant. A submission raises them, and a start does not lower them. Only a submission whose
bound is beyond the quota counts: waiting tasks and pending executions of tasks, through indexes, up
to the quota. The count corrects the bound. So the cost of a submission does not depend on what is
pending.

A bound is the sum of several rows. A transaction changes a row that no other has locked, or adds
one, so transactions never wait for each other and cannot deadlock. Three things follow:

- Concurrent transactions do not see each other's tasks, so a tenant can exceed its quota by what
  they submit.
- A transaction with another isolation than READ COMMITTED cannot lock a row that has changed since
  its snapshot. It always counts, and is in no bound.
- Retried executions are in no bound either. All of them are in the next count.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from psycopg import Error
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.core.words import number_of

# For applications, in their own transaction.
SUBMIT: Final = """
SELECT id, state, execute_at, existed
FROM tenantcron.submit_tasks(%(tenant)s::text, %(tasks)s::json) ORDER BY index
"""
_SUBMIT_AT = """
SELECT id, state, execute_at, existed
FROM tenantcron.submit_tasks_at(
    %(tenant)s::text, %(tasks)s::json, coalesce(%(at)s::timestamptz, statement_timestamp())
) ORDER BY index
"""
# The state of a task that was not fired yet. All others are states of executions.
WAITING: Final = "WAITING"


class Submitted(NamedTuple):
    """A submitted task; it exists if the transaction commits."""

    id: UUID
    # WAITING, or the state of its execution.
    state: str
    execute_at: datetime
    # Whether an earlier submission with the same key added it.
    existed: bool


class Rejection(StrEnum):
    """Why a batch is rejected, by the SQLSTATE of the error."""

    INVALID = "TC400"
    UNKNOWN_TENANT = "TC404"
    # An inactive tenant, or a key of another request.
    CONFLICT = "TC409"
    OVER_QUOTA = "TC429"


@dataclass(frozen=True, slots=True)
class TaskProblem:
    """A problem of one task, by its index in the batch; None: of the batch."""

    code: str
    message: str
    index: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        place = "" if self.index is None else f"task {self.index}: "
        return f"{place}{self.message}"


class TasksRejectedError(TenantcronError):
    """A batch that was rejected, with all problems; nothing was submitted."""

    def __init__(self, rejection: Rejection, problems: Sequence[TaskProblem]) -> None:
        self.rejection, self.problems = rejection, tuple(problems)
        shown = "; ".join(map(str, self.problems[:5]))
        more = len(self.problems) - 5
        super().__init__(f"{shown}; and {number_of(more, 'more problem')}" if more > 0 else shown)


async def submit(
    connection: AsyncConnection, tenant: TenantId, tasks: str, at: datetime | None
) -> list[Submitted]:
    """Submit a batch of a tenant's tasks, in their order; raise a TasksRejectedError.

    The tasks are JSON, see `schedules.task_request.batch_json`. After the error the transaction
    cannot be used any more, unless a savepoint was set.
    """
    parameters = {"tenant": tenant, "tasks": tasks, "at": at}
    try:
        rows = await connection.exec_driver_sql(_SUBMIT_AT, parameters)
    except DBAPIError as error:
        raise rejected(error.orig) or error from error
    return [Submitted._make(row) for row in rows]


def rejected(error: BaseException | None) -> TasksRejectedError | None:
    """Return the rejection that an error of the driver means; None for all other errors."""
    if not isinstance(error, Error) or error.sqlstate not in set(Rejection):
        return None
    problems = [
        TaskProblem(problem["code"], problem["message"], problem["index"], problem["field"])
        for problem in json.loads(error.diag.message_detail or "[]")
    ]
    return TasksRejectedError(Rejection(error.sqlstate), problems)
