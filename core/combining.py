"""Combine concurrent calls: one run of a step covers all items that arrived during the last run.

Under load runs are large and share the cost of a transaction. A single item runs at once. Only one
run is in progress at a time, so a combiner uses at most one connection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Combiner(Generic[Item, Result]):
    """Runs a step for several items; the step returns a result for each, in their order.

    If a run fails, all callers whose items were part of it receive the error.
    """

    def __init__(
        self, step: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], most: int
    ) -> None:
        self._step = step
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        """Return the result of an item, from a run with other items."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if self._running is None:
            # A run serves several callers, so it inherits neither the deadline nor the log context
            # of the first one.
            self._running = asyncio.create_task(self._run_all(), context=Context())
        return await result

    async def _run_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                # A future that is done belongs to a cancelled caller.
                await self._run([entry for entry in batch if not entry[1].done()])
        finally:
            self._running = None

    async def _run(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._step([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 -- every waiting caller receives it
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
