"""Sessions that hold locks for which others wait, from the server's system views.

These views need no lock on our tables, so they work even if a table is locked. Statements of other
sessions are not read: they may contain secrets. A role without `pg_read_all_stats` sees only the
process and the user of sessions of other roles.
"""

from dataclasses import dataclass
from typing import Any, Final

import psycopg
from sqlalchemy.exc import DBAPIError

from tenantcron.store.connection.engine import Database

LOCK_NOT_AVAILABLE: Final = "55P03"

_BLOCKERS: Final = """
SELECT b.pid, a.usename, a.application_name, a.state,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8, w.mode, w.granted,
    (SELECT c.relname FROM pg_class AS c WHERE c.oid = w.relation)
FROM pg_locks AS w
CROSS JOIN unnest(pg_blocking_pids(w.pid)) AS b (pid)
LEFT JOIN pg_stat_activity AS a ON a.pid = b.pid
WHERE w.pid = %(pid)s AND NOT w.granted
"""
# A waiting request for an exclusive lock also blocks all later requests.
_EXCLUSIVE: Final = """
SELECT l.pid, a.usename, a.application_name, a.state,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8, l.mode, l.granted, c.relname
FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.mode = 'AccessExclusiveLock' AND c.relnamespace = 'tenantcron'::regnamespace
    AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
ORDER BY l.granted DESC, c.relname, l.pid
"""


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock for which others wait, and the session that holds or requests it."""

    pid: int
    user: str | None
    application: str | None
    state: str | None
    # Seconds since its transaction began; None: not visible to this role.
    age: float | None
    mode: str
    granted: bool
    # None: the lock is on a row or a transaction, not on a table.
    table: str | None

    @property
    def session(self) -> str:
        """Describe the session."""
        about = [text for text in (self.user, self.application, self.state) if text]
        return f"process {self.pid}" + (f" ({', '.join(about)})" if about else "")


async def blockers(database: Database, pid: int) -> list[HeldLock]:
    """Return the locks that block a session; empty if it waits for no lock."""
    return [_lock(row) for row in await database.fetch(_BLOCKERS, {"pid": pid})]


async def exclusive_locks(database: Database) -> list[HeldLock]:
    """Return the locks on control tables that block even reads."""
    return [_lock(row) for row in await database.fetch(_EXCLUSIVE, {})]


def is_lock_timeout(error: DBAPIError) -> bool:
    """Whether a statement failed because it waited too long for a lock."""
    return isinstance(error.orig, psycopg.Error) and error.orig.sqlstate == LOCK_NOT_AVAILABLE


def _lock(row: tuple[Any, ...]) -> HeldLock:
    return HeldLock(*row)
