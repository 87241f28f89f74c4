"""Lock waits: inspect statements that take longer than 5 s from another connection.

If a statement waits for a lock, the log names the sessions that block it. If it is only slow, or
the server does not answer, this module logs nothing: the step ends at its deadline, and its loop
logs that.
"""

import asyncio
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.scheduler.replica.polling_loops import CURRENT_STEP
from tenantcron.store.connection.deadlines import SLOW_SECONDS
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.connection.lock_waits import HeldLock, blockers

log = structlog.get_logger(__name__)

_MOST_BLOCKERS: Final = 5


class LockWatch:
    """Called with the backend pid of each connection that has a slow statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, pid: int) -> None:
        """Look for blockers in the background, while the step continues to wait."""
        task = asyncio.get_running_loop().create_task(self._log_blockers(pid))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _log_blockers(self, pid: int) -> None:
        try:
            found = await blockers(self._database, pid)
        except (DatabaseError, DBAPIError):
            return  # the step fails in the same way and logs it
        if found:
            log.warning(
                "lock_wait",
                step=CURRENT_STEP.get(),
                seconds=SLOW_SECONDS,
                table=found[0].table,
                mode=found[0].mode,
                blocked_by=[_fields(lock) for lock in found[:_MOST_BLOCKERS]],
            )


def _fields(lock: HeldLock) -> dict[str, object]:
    age = None if lock.age is None else round(lock.age, 1)
    return {
        "pid": lock.pid,
        "user": lock.user,
        "application": lock.application,
        "state": lock.state,
        "transaction_seconds": age,
    }
