"""Left work: stops work at targets that continues although its execution has ended.

A replica that waits for the work stops it when the execution is cancelled. If no replica waits,
because the last one was killed or has stopped, the work would run until its own time limit. So a
replica that serves such a kind looks for executions that were cancelled or have failed: when it
starts, after cancellations and recoveries, and once an hour. It does not know whether the work
still runs, so the kind must accept a request to stop work that has ended.

No transaction is open during a request. Before it, the replica marks the row for longer than the
request may take. Other replicas skip a marked row, and an execution that an operator retries does
not start before the end of its mark, so the request never stops the work of the new attempt.

A request that fails is repeated later, until the execution ended a day ago. It delays no other.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Final
from uuid import UUID

import structlog

from tenantcron.core.targets import Target
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.definitions import UnreadableError
from tenantcron.store.connection import times
from tenantcron.store.connection.conflicts import retry_conflicts
from tenantcron.store.rows import left_work
from tenantcron.store.rows.left_work import EndedExecution, Position
from tenantcron.targets.contract import StopsLeftWork, TargetRunner

# Transactions become visible in another order than their times.
_OVERLAP: Final = timedelta(minutes=1)
_HOUR: Final = 3600.0
# After the first request that failed; it doubles after each further one.
_FIRST_RETRY: Final = timedelta(seconds=30)
_LONGEST_RETRY: Final = timedelta(hours=1)
_MOST_DOUBLINGS: Final = 7
# Requests at the same time.
_AT_ONCE: Final = 16
_REQUEST_SECONDS: Final = 5.0
# From the mark to the start of its request. A replica that was suspended in between must not send
# the request, because the mark may end before it.
_START_SECONDS: Final = 5.0
_MARK: Final = timedelta(seconds=_START_SECONDS + 2 * _REQUEST_SECONDS)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _LeftWork:
    """An execution whose work is to be stopped."""

    execution: EndedExecution
    target: Target
    due: datetime
    failures: int = 0

    def failed(self, now: datetime) -> None:
        """Plan the next request."""
        wait = _FIRST_RETRY * 2 ** min(self.failures, _MOST_DOUBLINGS)
        self.failures += 1
        self.due = now + min(wait, _LONGEST_RETRY)


class LeftWorkLoop:
    """Stops left work of the kinds that one replica serves."""

    def __init__(self, replica: Replica, runners: Mapping[str, TargetRunner]) -> None:
        self._replica = replica
        self._runners = {
            kind: runner for kind, runner in runners.items() if isinstance(runner, StopsLeftWork)
        }
        # Everything that ended before was looked at; None: nothing yet.
        self._after: Position | None = None
        # What is to be stopped, by execution.
        self._left: dict[UUID, _LeftWork] = {}
        # What was stopped, and is found again because of the overlap.
        self._stopped: set[EndedExecution] = set()

    @property
    def is_needed(self) -> bool:
        """Whether the replica serves a kind whose work can be left running."""
        return bool(self._runners)

    async def step(self) -> float:
        """Stop the work of executions that have ended; return the seconds until the next look."""
        is_full, now = await self._look()
        oldest = now - left_work.LOOK_BACK
        for left in [*self._left.values()]:
            if left.execution.finished_at < oldest:
                del self._left[left.execution.id]
        due = [left for left in self._left.values() if left.due <= now]
        for begin in range(0, len(due), _AT_ONCE):
            await self._stop_all(due[begin : begin + _AT_ONCE], now)
        if is_full:
            return 0
        hour = _HOUR * (1 + self._replica.random.random())
        waits = [(left.due - now).total_seconds() for left in self._left.values()]
        return max(1.0, min([hour, *waits]))

    async def _look(self) -> tuple[bool, datetime]:
        """Add the executions that have ended since; return whether there may be more."""
        replica = self._replica
        async with replica.database.transaction() as connection:
            now = await times.moment(connection, replica.clock())
            after = self._after or Position(now - left_work.LOOK_BACK)
            ended = await left_work.ended_after(connection, list(self._runners), after)
            ids = {execution.definition_id for execution in ended}
            definitions = await replica.definitions.read(connection, ids)
        for execution in ended:
            definition = definitions[execution.definition_id]
            target = None if isinstance(definition, UnreadableError) else definition.target
            if target is None or target.kind not in self._runners or execution in self._stopped:
                continue
            known = self._left.get(execution.id)
            # An execution that was retried has ended again.
            if known is None or known.execution != execution:
                self._left[execution.id] = _LeftWork(execution, target, now)
        is_full = len(ended) == left_work.MOST_AT_ONCE
        self._after = ended[-1].position if is_full else Position(now - _OVERLAP)
        since = self._after.finished_at
        self._stopped = {execution for execution in self._stopped if execution.finished_at >= since}
        return is_full, now

    async def _stop_all(self, batch: Sequence[_LeftWork], now: datetime) -> None:
        by_id = {left.execution.id: left for left in batch}
        begun = monotonic()
        marks = await retry_conflicts(lambda: self._mark(batch))
        marked = [left for execution, left in by_id.items() if marks.get(execution)]
        done = []
        if monotonic() - begun < _START_SECONDS:
            stopped = await asyncio.gather(*(self._stop(left) for left in marked))
            done = [left for left, is_stopped in zip(marked, stopped, strict=True) if is_stopped]
            await retry_conflicts(lambda: self._unmark(marked))
        for execution, left in by_id.items():
            # Without a mark it has not ended any more: an operator has retried it.
            if left in done or execution not in marks:
                del self._left[execution]
                self._stopped.add(left.execution)
            else:
                left.failed(now)

    async def _mark(self, batch: Sequence[_LeftWork]) -> dict[UUID, bool]:
        executions = [left.execution for left in batch]
        async with self._replica.database.transaction() as connection:
            return await left_work.mark(connection, executions, _MARK, self._replica.clock())

    async def _unmark(self, marked: Sequence[_LeftWork]) -> None:
        async with self._replica.database.transaction() as connection:
            await left_work.unmark(connection, [left.execution for left in marked])

    async def _stop(self, left: _LeftWork) -> bool:
        """Return False if the request failed, and has to be repeated."""
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                return await self._runners[left.target.kind].stop_left(
                    left.execution.id, left.target
                )
        except Exception as error:  # noqa: BLE001 -- of any library; it must not delay the others
            log.warning(
                "left_work_not_stopped",
                execution=str(left.execution.id),
                error=str(error) or type(error).__name__,
            )
            return False
