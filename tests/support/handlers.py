"""Handlers for tests, and an executor with a manual clock."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from support.attempts import SETTINGS, HandClock, claimed

from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.execute import GRACE, Executor
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import AsyncTransaction, Execution, Transaction
from tenantcron.targets.handlers import Handler, HandlerFunction, SourceLocation
from tenantcron.targets.python.registry import Handlers


class NoDatabase:
    """For handlers that need no database."""

    def begin(self) -> AsyncTransaction:
        raise AssertionError

    def begin_plain(self) -> Transaction:
        raise AssertionError


def handler(function: HandlerFunction, saga: str = "reconcile") -> Handler:
    return Handler(
        saga, function, asyncio.iscoroutinefunction(function), SourceLocation("m", "f", "x", 1)
    )


@dataclass(frozen=True, slots=True)
class Runs:
    """An executor with a manual clock."""

    executor: Executor
    clock: HandClock

    def start(self, of: Claimed) -> asyncio.Task[Attempt]:
        """Start an execution."""
        return asyncio.create_task(self.executor.run(of, SETTINGS))

    def time_is_up(self) -> None:
        """Fire the only timer, the timeout."""
        (timer,) = self.clock.pending
        assert timer.seconds == SETTINGS.timeout.total_seconds()
        timer.go_off()

    def grace_is_over(self) -> None:
        """Fire the only timer, the grace period."""
        (timer,) = self.clock.pending
        assert timer.seconds == GRACE.total_seconds()
        timer.go_off()


def runs(function: HandlerFunction) -> Runs:
    clock = HandClock()
    handlers = Handlers.of([handler(function)])
    return Runs(Executor(handlers, lambda _: NoDatabase(), call_later=clock), clock)


async def attempt_of(function: HandlerFunction) -> Attempt:
    return await runs(function).executor.run(claimed(), SETTINGS)


def async_and_plain(act: Callable[[Execution], None]) -> list[HandlerFunction]:
    async def in_the_loop(execution: Execution) -> None:
        act(execution)

    def in_a_thread(execution: Execution) -> None:
        act(execution)

    return [in_the_loop, in_a_thread]


def raising(error: BaseException) -> Callable[[Execution], None]:
    def act(_: Execution) -> None:
        raise error

    return act


def doing_nothing(_: Execution) -> None:
    """Do nothing, successfully."""


def tasks_at_work() -> set[asyncio.Task[object]]:
    """Return the tasks of handlers and their authorisation, abandoned ones included."""
    steps = ("_in_task", "_authorise")
    tasks = asyncio.all_tasks()
    return {task for task in tasks if any(step in repr(task.get_coro()) for step in steps)}
