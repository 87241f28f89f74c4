"""Left work: stops work at targets that continues although its execution has ended.

A replica that waits for the work stops it when the execution is cancelled. If no replica waits,
because the last one was killed or has stopped, the work would run until its own time limit. So a
replica that serves such a kind looks for executions that were cancelled or have failed: when it
starts, after cancellations and recoveries, and once an hour. It does not know whether the work
still runs, so the kind must accept a request to stop work that has ended.

The row of the execution is locked during the request. An operator who retries the execution waits
for it, so the request never stops the work of the new attempt.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import structlog

from tenantcron.core.targets import Target
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.definitions import UnreadableError
from tenantcron.store.connection import times
from tenantcron.store.rows import left_work
from tenantcron.store.rows.left_work import EndedExecution
from tenantcron.targets.contract import StopsLeftWork, TargetRunner

# Transactions become visible in another order than their times.
_OVERLAP: Final = timedelta(minutes=1)
_HOUR: Final = 3600.0
# After a request that failed.
_RETRY_SECONDS: Final = 30.0

log = structlog.get_logger(__name__)


class LeftWorkLoop:
    """Stops left work of the kinds that one replica serves."""

    def __init__(self, replica: Replica, runners: Mapping[str, TargetRunner]) -> None:
        self._replica = replica
        self._runners = {
            kind: runner for kind, runner in runners.items() if isinstance(runner, StopsLeftWork)
        }
        # Everything that ended before was looked at; None: nothing yet.
        self._since: datetime | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the replica serves a kind whose work can be left running."""
        return bool(self._runners)

    async def step(self) -> float:
        """Stop the work of executions that have ended; return the seconds until the next look."""
        found, until = await self._ended()
        for execution, target in found:
            if not await self._stop(execution, target):
                return _RETRY_SECONDS
            self._since = execution.finished_at
        if len(found) == left_work.MOST_AT_ONCE:
            return 0
        self._since = until - _OVERLAP
        return _HOUR * (1 + self._replica.random.random())

    async def _ended(self) -> tuple[list[tuple[EndedExecution, Target | None]], datetime]:
        replica = self._replica
        async with replica.database.transaction() as connection:
            now = await times.moment(connection, replica.clock())
            since = self._since or now - left_work.LOOK_BACK
            ended = await left_work.ended_since(connection, list(self._runners), since)
            ids = {execution.definition_id for execution in ended}
            definitions = await replica.definitions.read(connection, ids)
        found = []
        for execution in ended:
            definition = definitions[execution.definition_id]
            target = None if isinstance(definition, UnreadableError) else definition.target
            found.append((execution, target))
        return found, now

    async def _stop(self, execution: EndedExecution, target: Target | None) -> bool:
        """Return False if the request failed, and has to be repeated."""
        runner = None if target is None else self._runners.get(target.kind)
        if target is None or runner is None:
            return True
        async with self._replica.database.transaction() as connection:
            if not await left_work.lock_ended(connection, execution):
                return True
            return await runner.stop_left(execution.id, target)
