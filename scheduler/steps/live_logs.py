"""Live logs: what running attempts have logged so far, stored while they run.

The log of an attempt is collected in memory (`targets.output`) and stored with the attempt when it
ends. This module also stores the new lines of attempts that are still running, so that a log can be
followed, and so that the log of a lost attempt is not lost with its replica.

What is written: once per `INTERVAL`, one statement inserts the new lines of all running attempts
that have any. The lines of an attempt in one statement are one row of `live_log`. An attempt is
included from the second interval that it sees, so attempts shorter than `INTERVAL` cost nothing,
and an attempt without new lines is not in the statement. Nothing is sent if there are no new lines.
While no attempt runs, the loop sleeps until one starts.

Size: the rows of an attempt never contain more than the log may have (`LONGEST_LOG`). If new lines
do not fit, or if there are `_MOST_ROWS` rows, the statement replaces the rows by one with the last
half of the log. So an attempt writes at most twice what it logs, plus half a log per `_MOST_ROWS`
intervals.

The fence: the statement carries the lease tokens and ignores attempts that have lost their lease.
Rows have the number of their attempt, and readers read only those of the attempt that is running.
So a row that a stale attempt writes in the moment in which it loses its lease is never shown.

The end: the transaction that records the end of an attempt stores the final log with it, and
deletes its rows if there are any. The recovery of a lost attempt moves its rows into the attempt's
log. Rows that remain anyway are deleted by the next attempt, or by housekeeping.

Failures: the loop has its own transactions, and no step waits for it. If the database is
unavailable, lines stay in memory. After a failure it is unknown what was stored, so the next
statement replaces the rows. A stored log is up to two intervals old, and lines of attempts that end
meanwhile are stored with the attempt.

In a rolling upgrade, replicas of the release before do not write rows.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.scheduler.replica.polling_loops import CURRENT_STEP, LONGEST_SLEEP
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.running_attempt import UNKNOWN_LOG, RunningAttempt, StoredLog
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.connection.prepared import FEW
from tenantcron.store.rows import live_logs
from tenantcron.store.rows.live_logs import NewLines
from tenantcron.targets.output import LONGEST_LOG, Output

log = structlog.get_logger(__name__)

# Seconds between two statements.
INTERVAL: Final = 1.0
_LONGEST_PAUSE: Final = 10.0
_MOST_ROWS: Final = 64
# The size of the lines in one statement.
_MOST_BYTES: Final = 1024 * 1024


class _LogChange(NamedTuple):
    """The lines to store for an attempt, and what is stored afterwards."""

    attempt: RunningAttempt
    lines: NewLines
    stored: StoredLog
    size: int


class LiveLogs:
    """Stores new log lines of the attempts that run in an executor."""

    def __init__(self, replica: Replica, executor: Executor) -> None:
        self._replica, self._executor = replica, executor
        # The attempts that ran an interval ago.
        self._known: frozenset[RunningAttempt] = frozenset()

    async def write(self) -> None:
        """Store new lines until cancelled."""
        CURRENT_STEP.set("live_logs")
        pause = INTERVAL
        while True:
            if not self._executor.load:
                self._known = frozenset()
                await self._executor.busy.wait(LONGEST_SLEEP)
                continue
            await asyncio.sleep(pause)
            try:
                await self.step()
            except (DatabaseError, DBAPIError) as error:
                if pause == INTERVAL:
                    log.warning("live_logs_not_written", error=first_line(error))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause = INTERVAL

    async def step(self) -> int:
        """Store the new lines of attempts that ran at the last step; return for how many."""
        running = self._executor.attempts
        known, self._known = self._known, frozenset(running)
        changes = [
            change
            for attempt in running
            if attempt.output is not None and attempt in known
            if (change := _change(attempt, attempt.output)) is not None
        ]
        for batch in _batches(changes):
            await self._store(batch)
        return len(changes)

    async def _store(self, changes: Sequence[_LogChange]) -> None:
        for change in changes:
            # Until the response, it is unknown what is stored.
            change.attempt.stored_log = UNKNOWN_LOG
        database, is_small = self._replica.database, len(changes) <= FEW
        async with database.transaction(by_key=True, is_small=is_small) as connection:
            await live_logs.add(connection, [change.lines for change in changes])
        for change in changes:
            change.attempt.stored_log = change.stored


def _change(attempt: RunningAttempt, output: Output) -> _LogChange | None:
    """Return the lines to store for an attempt, if there are any."""
    stored = attempt.stored_log or UNKNOWN_LOG
    new = output.lines_after(stored.end_position)
    if new is None:
        return None
    # Lines are missing if more were logged in an interval than the log may have.
    follows = stored.rows > 0 and new.position == stored.end_position
    if follows and (stored.size + new.size > LONGEST_LOG or stored.rows == _MOST_ROWS):
        follows, new = False, output.lines_after(0, LONGEST_LOG // 2) or new
    rows, size = (stored.rows + 1, stored.size + new.size) if follows else (1, new.size)
    lines = NewLines(attempt.claimed, new.end_position, new.text, replaces=not follows)
    return _LogChange(attempt, lines, StoredLog(new.end_position, rows, size), new.size)


def _batches(changes: Sequence[_LogChange]) -> Iterator[list[_LogChange]]:
    """Yield changes in batches of limited size."""
    batch, size = list[_LogChange](), 0
    for change in changes:
        if batch and size + change.size > _MOST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += change.size
    if batch:
        yield batch
