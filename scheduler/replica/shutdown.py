"""Stopping: every part of it has a deadline, so a process ends whatever its database does.

Counted from the moment when it is asked to stop, with `drain` from the settings:

| until | what happens |
|---|---|
| 3 s | steps that have begun end; then they are cancelled, and leases cover the rest |
| `drain` | executions that run end by themselves, and events that are being sent |
| `drain` + 5 s | interrupted handlers clean up (see `execute.GRACE`) |
| `drain` + 7 s | results are written |
| `drain` + 8.5 s | leases in doubt are released, the replica removes its row |
| `drain` + 9.5 s | the command ends the process by force, if it is still there |

Nothing is lost by a deadline: leases expire, and another replica recovers what they held.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

log = structlog.get_logger(__name__)

LONGEST_STOP: Final = 9.5
_STEPS, _RESULTS, _LEAVING = 3.0, 7.0, 8.5
# A cancelled step closes its connection, which needs no answer.
_CANCELLED: Final = 1.0


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The deadlines of one stop, by the clock of the event loop."""

    asked_at: float
    drain: timedelta

    @property
    def steps_end(self) -> float:
        """When steps that have begun are cancelled."""
        return self.asked_at + _STEPS

    @property
    def drained(self) -> float:
        """When executions are interrupted."""
        return self.asked_at + self.drain.total_seconds()

    @property
    def results_written(self) -> float:
        """When results are given up."""
        return self.drained + _RESULTS

    @property
    def left(self) -> float:
        """When the replica stops without removing its row."""
        return self.drained + _LEAVING


async def end_tasks(tasks: Collection[asyncio.Task[None]], until: float) -> None:
    """Wait for tasks to end by themselves, then cancel them."""
    seconds = max(until - asyncio.get_running_loop().time(), 0.0)
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    if late:
        log.warning("steps_cancelled", steps=sorted(task.get_name() for task in late))
        await asyncio.wait(late, timeout=_CANCELLED)
