"""The watchdog of the event loop: what counts as blocked, for how long, and by which saga."""

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs
from support.attempts import SETTINGS, claimed
from support.handlers import NoDatabase, handler

from tenantcron.scheduler.metrics.counts import Counts
from tenantcron.scheduler.replica.watchdog import CHECK_INTERVAL, Watchdog
from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import HandlerFunction
from tenantcron.targets.python.registry import Handlers


@dataclass
class Hand:
    """A fake clock."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Watched:
    """The test's own loop, which answers when the test yields to it."""

    executor: Executor
    clock: Hand = field(default_factory=Hand)
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        self.watchdog = Watchdog(loop, thread, self.executor, self.counts, self.clock)

    def looks(self, number: int, seconds: float = CHECK_INTERVAL) -> None:
        """Check repeatedly, without letting the loop answer."""
        for _ in range(number):
            self.clock.now += seconds
            self.watchdog.check()


def executor_of(function: HandlerFunction) -> Executor:
    return Executor(Handlers.of([handler(function)]), lambda _: NoDatabase())


async def hanging(_: Execution) -> None:
    await asyncio.Event().wait()


async def begun(watched: Watched) -> asyncio.Task[Attempt]:
    task = asyncio.create_task(watched.executor.run(claimed(), SETTINGS))
    while not watched.executor.load:
        await asyncio.sleep(0)
    # Start the handler's task.
    await asyncio.sleep(0)
    return task


async def ended(watched: Watched, task: asyncio.Task[Attempt]) -> None:
    watched.executor.interrupt_all()
    await task


async def test_a_block_is_logged_after_a_second_and_when_it_ends() -> None:
    watched = Watched(executor_of(hanging))
    task = await begun(watched)

    with capture_logs() as logs:
        watched.looks(4)
        assert logs == [], "less than a second"
        watched.looks(8)
        await asyncio.sleep(0)
        watched.looks(1)

    assert [(line["event"], line["seconds"]) for line in logs] == [
        ("loop_blocked", 1.0),
        ("loop_unblocked", 2.8),
    ]
    assert watched.counts.loop_blocked_seconds == 2.75
    await ended(watched, task)


async def test_a_loop_that_answers_in_time_is_not_blocked() -> None:
    watched = Watched(executor_of(hanging))
    task = await begun(watched)

    with capture_logs() as logs:
        for _ in range(40):
            watched.looks(2)
            await asyncio.sleep(0)

    assert (logs, watched.watchdog.is_blocked) == ([], False)
    await ended(watched, task)


async def test_time_in_which_the_process_was_stopped_does_not_count() -> None:
    watched = Watched(executor_of(hanging))
    task = await begun(watched)
    watched.looks(1)

    watched.looks(1, seconds=3600)

    assert (watched.watchdog.seconds, watched.watchdog.is_blocked) == (2 * CHECK_INTERVAL, False)
    await ended(watched, task)


async def test_an_idle_loop_is_not_woken() -> None:
    watched = Watched(executor_of(hanging))
    watched.looks(1)
    loop = asyncio.get_running_loop()
    assert not loop._ready  # type: ignore[attr-defined] # nothing was put there
    watched.looks(40)
    assert not watched.watchdog.is_blocked


# Only Python 3.12 and newer expose the context of another task.
OWN_TASKS = [True] if sys.version_info < (3, 12) else [True, False]


@pytest.mark.parametrize("is_own_task", OWN_TASKS)
async def test_the_blocking_execution_is_found_by_the_task_of_its_handler_or_a_subtask(
    is_own_task: bool,
) -> None:
    found = []

    def look() -> None:
        # From another thread, while this one waits for it: as if it were blocked.
        thread = threading.Thread(target=lambda: found.append(watched.watchdog.current_block()))
        thread.start()
        thread.join()

    async def part(act: Callable[[], None]) -> None:
        act()

    async def blocking(_: Execution) -> None:
        await (part(look) if is_own_task else asyncio.create_task(part(look)))

    watched = Watched(executor_of(blocking))
    of = claimed(tenant="umbrella")
    await watched.executor.run(of, SETTINGS)

    (block,) = found
    assert block.claimed == of
    assert "in part\n    act()" in block.stack
