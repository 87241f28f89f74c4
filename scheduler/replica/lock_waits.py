"""Lock waits: a statement that takes longer than 5 s is looked at from another connection.

If it waits for a lock, the log says who blocks it. If it is only slow, or the server is silent,
nothing is logged here: the step itself ends at its deadline, and its loop logs that.
"""

import asyncio
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.scheduler.replica.sleeping_loops import CURRENT_STEP
from tenantcron.store.connection.deadlines import SLOW_SECONDS
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.connection.lock_waits import HeldLock, blockers

log = structlog.get_logger(__name__)

_MOST: Final = 5


class LockWatch:
    """Called with the server's process id of each connection whose statement is slow."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._looking: set[asyncio.Task[None]] = set()

    def __call__(self, pid: int) -> None:
        """Look in the background; the step goes on waiting."""
        task = asyncio.get_running_loop().create_task(self._look(pid))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, pid: int) -> None:
        try:
            found = await blockers(self._database, pid)
        except (DatabaseError, DBAPIError):
            return  # its own step meets the same, and says so
        if found:
            log.warning(
                "lock_wait",
                step=CURRENT_STEP.get(),
                seconds=SLOW_SECONDS,
                table=found[0].table,
                mode=found[0].mode,
                blocked_by=[_fields(lock) for lock in found[:_MOST]],
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
