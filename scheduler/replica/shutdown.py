"""Shutdown: each phase has a deadline, so a process ends even if its database does not answer.

Deadlines count from the stop request, with `drain` from the settings:

| until | what happens |
|---|---|
| 3 s | steps in progress finish; after that they are cancelled |
| `drain` | running executions and events that are being sent finish |
| `drain` + 5 s | interrupted handlers clean up (see `execute.GRACE`) |
| `drain` + 7 s | results are written |
| `drain` + 8.5 s | uncertain leases are released, and the replica removes its row |
| `drain` + 9.5 s | the command kills the process if it is still running |

A missed deadline loses nothing: leases expire, and another replica recovers the executions.
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
# A cancelled step closes its connection, which does not wait for the server.
_CANCELLED: Final = 1.0


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The deadlines of one shutdown, in the time of the event loop."""

    asked_at: float
    drain: timedelta

    @property
    def steps_end(self) -> float:
        """When steps in progress are cancelled."""
        return self.asked_at + _STEPS

    @property
    def drained(self) -> float:
        """When running executions are interrupted."""
        return self.asked_at + self.drain.total_seconds()

    @property
    def results_written(self) -> float:
        """When unwritten results are abandoned."""
        return self.drained + _RESULTS

    @property
    def left(self) -> float:
        """When the replica stops without removing its row."""
        return self.drained + _LEAVING


async def end_tasks(tasks: Collection[asyncio.Task[None]], until: float) -> None:
    """Wait until tasks end, and cancel those that are still running at the deadline."""
    seconds = max(until - asyncio.get_running_loop().time(), 0.0)
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    if late:
        log.warning("steps_cancelled", steps=sorted(task.get_name() for task in late))
        await asyncio.wait(late, timeout=_CANCELLED)
