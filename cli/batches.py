"""Runs a bulk operation batch by batch, with progress, until it is done or interrupted.

The first Ctrl-C lets the current batch finish, so that the summary is exact. The second one ends
the command at once. In both cases the same command again does the rest.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from tenantcron.cli.clusters.cluster import BatchRequest
from tenantcron.service.responses.bulk_shapes import BulkExecutionsResponse, BulkSchedulesResponse

T = TypeVar("T", BulkExecutionsResponse, BulkSchedulesResponse)

INTERRUPTED: Final = 130
_CLEAR_LINE: Final = "\r\x1b[K"

Send = Callable[[BatchRequest], Awaitable[T]]


@dataclass(slots=True)
class BatchRun(Generic[T]):
    """The batches of a run, and whether it was interrupted before the last one."""

    batches: list[T] = field(default_factory=list)
    interrupted: bool = False

    @property
    def changed(self) -> int:
        """How many rows were changed."""
        return sum(batch["changed"] for batch in self.batches)

    @property
    def skipped(self) -> int:
        """How many rows changed at the same time, so that this run left them alone."""
        return sum(batch["skipped"] for batch in self.batches)


async def run_batches(send: Send[T], verb: str) -> BatchRun[T]:
    """Send batches until none is left, or until Ctrl-C; show the progress on a terminal."""
    run: BatchRun[T] = BatchRun()
    total = await _total(send) if sys.stderr.isatty() else None
    with _interrupt() as interrupted:
        after: str | None = None
        while True:
            batch = await send(BatchRequest(after=after))
            run.batches.append(batch)
            after = batch["next"]
            if total is not None:
                print(f"{_CLEAR_LINE}{verb} {run.changed} of {total}", end="", file=sys.stderr)
            if after is None or interrupted.is_set():
                break
    run.interrupted = after is not None
    if total is not None:
        print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)
    return run


async def _total(send: Send[T]) -> str:
    preview = (await send(BatchRequest(dry_run=True)))["preview"]
    if preview is None:
        return "an unknown number"
    return f"{preview['matched']}" if preview["complete"] else f"more than {preview['matched']}"


@contextmanager
def _interrupt() -> Iterator[asyncio.Event]:
    """Yield an event that the first Ctrl-C sets; the next one interrupts as usual."""
    interrupted, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_interrupt() -> None:
        interrupted.set()
        loop.remove_signal_handler(signal.SIGINT)
        print("\nfinishing the current batch; Ctrl-C again to stop at once", file=sys.stderr)

    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        yield interrupted
    finally:
        loop.remove_signal_handler(signal.SIGINT)
