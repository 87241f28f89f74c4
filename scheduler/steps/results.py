"""The queue of results to write to the database.

Results accumulate while the previous batch is written. Under load batches are large and share the
cost of a commit; an idle replica writes each result at once. If the database is unavailable,
results are kept and retried. Their leases are renewed meanwhile; if a lease is lost, the database
rejects the result. If the database rejects a batch because of a value in it, the batch is halved,
so one bad result never delays the others.
"""

import asyncio
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.scheduler.replica.polling_loops import CURRENT_STEP
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.finish import REFUSED, finish_batch
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import ConflictError, DatabaseError

log = structlog.get_logger(__name__)

RESULTS_A_BATCH = 2000
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 3.0


class Results:
    """Writes results in the order in which they are added."""

    def __init__(self, replica: Replica, on_freed: Callable[[], None]) -> None:
        self._replica = replica
        self._on_freed = on_freed
        self._unwritten: list[Attempt] = []
        self._some, self._none = asyncio.Event(), asyncio.Event()
        self._none.set()

    def add(self, attempt: Attempt) -> None:
        """Add a result."""
        self._unwritten.append(attempt)
        self._none.clear()
        self._some.set()

    @property
    def unwritten(self) -> int:
        """The number of results to write."""
        return len(self._unwritten)

    @property
    def left(self) -> tuple[Attempt, ...]:
        """The results to write. Thread-safe."""
        # `tuple` runs no Python code here, so the loop cannot change the list meanwhile.
        return tuple(self._unwritten)

    async def all_written(self) -> None:
        """Wait until all results are written."""
        await self._none.wait()

    async def write(self) -> None:
        """Write results until cancelled."""
        CURRENT_STEP.set("results")
        while True:
            await self._some.wait()
            batch = self._unwritten[:RESULTS_A_BATCH]
            await self._write_until_done(batch)
            del self._unwritten[: len(batch)]
            if not self._unwritten:
                self._some.clear()
                self._none.set()

    async def _write_until_done(self, batch: Sequence[Attempt]) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                await self._write(batch)
            except ConflictError:
                continue  # the other transaction has ended by now
            except (DatabaseError, DBAPIError) as error:
                log.error("results_not_written", error=first_line(error), results=len(batch))
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            else:
                return

    async def _write(self, batch: Sequence[Attempt]) -> None:
        try:
            finished = await finish_batch(self._replica, batch)
        except REFUSED as error:
            await self._write_halves(batch, error)
            return
        if finished.waiting:
            self._on_freed()

    async def _write_halves(self, batch: Sequence[Attempt], error: DBAPIError) -> None:
        if len(batch) == 1:
            # Its lease expires, and the execution is recovered as if the worker had been lost.
            execution = str(batch[0].claimed.id)
            log.error("result_refused", execution=execution, error=first_line(error))
            return
        middle = len(batch) // 2
        await self._write(batch[:middle])
        await self._write(batch[middle:])
