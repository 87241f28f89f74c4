"""The watchdog: detects that the main event loop is blocked, and by which saga.

It runs in another thread and schedules a callback in the loop periodically. A loop that has not run
the callback for a second is blocked. The watchdog logs that once, with the stack of the loop's
thread and the execution whose handler is running, and logs again when the block has ended.

Blocked time is the sum of the intervals between checks, each at most twice the planned interval. If
the process was stopped or got no CPU time, the watchdog did not run either, and no handler is to
blame. While no handler runs, the watchdog schedules no callbacks, so an idle replica stays asleep.
"""

import asyncio
import sys
import traceback
from asyncio import AbstractEventLoop, Task
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from traceback import FrameSummary
from typing import Final
from uuid import UUID

import structlog

from tenantcron.actor.context import correlation_id_in
from tenantcron.scheduler.metrics.counts import Counts
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.handler_context import fields
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets import calls

log = structlog.get_logger(__name__)

CHECK_INTERVAL: Final = 0.25
# Seconds without an answer after which the block is logged.
LOGGED_AFTER: Final = 1.0
_FRAMES: Final = 12


@dataclass(frozen=True, slots=True)
class LoopBlock:
    """A blocked loop: the execution whose handler blocks it, if known, and the stack."""

    claimed: Claimed | None
    stack: str


class Watchdog:
    """Watches one event loop, from another thread."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        loop_thread: int,
        executor: Executor,
        counts: Counts,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._loop, self._loop_thread = loop, loop_thread
        self._executor, self._counts = executor, counts
        self._clock = clock
        self._asked = self._answered = 0
        self._checked_at = clock()
        # Seconds without an answer, while the watchdog itself could run.
        self.seconds = 0.0
        self.block: LoopBlock | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether the loop has been blocked long enough to be logged."""
        return self.block is not None

    def check(self) -> None:
        """Check whether the loop has answered; if so, schedule the next callback."""
        now = self._clock()
        passed, self._checked_at = now - self._checked_at, now
        if self._answered == self._asked:
            self._end()
            self._ask()
            return
        self.seconds += min(passed, 2 * CHECK_INTERVAL)
        if self.block is None and self.seconds >= LOGGED_AFTER:
            self.block = self.current_block()
            log.warning("loop_blocked", **self._fields(self.block), stack=self.block.stack)

    def current_block(self) -> LoopBlock:
        """Return what the loop's thread is running now."""
        frame = sys._current_frames().get(self._loop_thread)
        frames = _of_handler(traceback.extract_stack(frame)) if frame else []
        stack = "".join(traceback.format_list(frames[-_FRAMES:]))
        return LoopBlock(self._claimed(), stack.rstrip())

    def _ask(self) -> None:
        if self._executor.load or self._executor.abandoned:
            self._asked += 1
            self._loop.call_soon_threadsafe(self._answer, self._asked)

    def _answer(self, asked: int) -> None:
        self._answered = asked

    def _end(self) -> None:
        if self.block is not None:
            log.warning("loop_unblocked", **self._fields(self.block))
            self._counts.loop_blocked_seconds += self.seconds
        self.seconds, self.block = 0.0, None

    def _claimed(self) -> Claimed | None:
        """Return the execution whose handler, or a task started by it, is running in the loop."""
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        claimed = self._executor.run_by(task)
        if claimed is not None:
            return claimed
        part_of = _part_of(task)
        running = self._executor.running
        return next((claimed for claimed in running if claimed.id == part_of), None)

    def _fields(self, block: LoopBlock) -> dict[str, str | int | float]:
        about = {} if block.claimed is None else fields(block.claimed)
        return {**about, "seconds": round(self.seconds, 1)}


def _of_handler(frames: list[FrameSummary]) -> list[FrameSummary]:
    """Drop the scheduler's own frames above a handler."""
    called = [index for index, frame in enumerate(frames) if frame.filename == calls.__file__]
    return frames[called[-1] + 1 :] if called else frames


def _part_of(task: Task[object]) -> UUID | None:
    """Return the execution that a task belongs to; Python 3.11 does not expose a task's context."""
    if sys.version_info >= (3, 12):
        return correlation_id_in(task.get_context())
    return None
