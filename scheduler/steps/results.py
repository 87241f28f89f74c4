"""Results on their way into the database.

They gather while the batch before them is written, so under load a batch is large and the cost of a
commit is shared, and an idle replica writes each at once. What cannot be written because the
database is away is kept and tried again. Its lease is renewed meanwhile, and if that is lost, the
result is refused, as it must be. A batch that the database refuses for what is in it is halved, so
that one bad result never holds up the others.
"""

import asyncio
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.sleeping_loops import CURRENT_STEP
from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.finish import REFUSED, finish_batch
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import ConflictError, DatabaseError

log = structlog.get_logger(__name__)

RESULTS_A_BATCH = 2000
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 3.0


class Results:
    """Takes results and writes them, in the order in which they come."""

    def __init__(self, replica: Replica, on_freed: Callable[[], None]) -> None:
        self._replica = replica
        self._on_freed = on_freed
        self._unwritten: list[Attempt] = []
        self._some, self._none = asyncio.Event(), asyncio.Event()
        self._none.set()

    def add(self, attempt: Attempt) -> None:
        """Take a result."""
        self._unwritten.append(attempt)
        self._none.clear()
        self._some.set()

    @property
    def unwritten(self) -> int:
        """How many are left to write."""
        return len(self._unwritten)

    @property
    def left(self) -> tuple[Attempt, ...]:
        """What is left to write; any thread may ask."""
        # Made without running any Python code, so the loop cannot change the list meanwhile.
        return tuple(self._unwritten)

    async def all_written(self) -> None:
        """Wait until nothing is left to write."""
        await self._none.wait()

    async def write(self) -> None:
        """Write what comes, for ever."""
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
                continue  # the other one is done by now
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
            # Its lease runs out, and the execution is recovered as if the worker had been lost.
            execution = str(batch[0].claimed.id)
            log.error("result_refused", execution=execution, error=first_line(error))
            return
        middle = len(batch) // 2
        await self._write(batch[:middle])
        await self._write(batch[middle:])
