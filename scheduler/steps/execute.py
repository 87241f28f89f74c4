"""Execute: run one claimed execution, and say how the attempt ended.

An attempt ends in exactly one way, and whoever started it is told once, in the event loop; nothing
is ever raised for what a handler does.

- The handler returns: SUCCEEDED. It raises: FAILED, with the error in full. `Retry` and `Fail`
  decide whether there is another attempt.
- Its time is up: TIMED_OUT. Somebody cancels: CANCELLED. The scheduler goes down: INTERRUPTED. The
  lease is gone: LOST. The first of these that comes decides, whatever the handler does after it: a
  handler that cleans up and returns has not done its work.

The call of an HTTP target is an async handler like any other, made for the occasion.

An execution with an owner asks first whether they may still do this, if there is anybody to ask,
and starts its handler only after a yes. A no ends the attempt as REFUSED. No decision is FAILED,
and the next attempt asks again. All others start at once, as if there was no such question.

Who stops a handler: an async one gets a CancelledError and a grace to clean up in. A plain one
cannot be stopped: its attempt ends at once, and a flag tells it. Once an attempt has ended its
transactions are rolled back, whatever the handler wants. A handler that runs on after that is
abandoned: it holds no slot, is counted in `Executor.abandoned` until it really ends, and is logged
when the grace is over.

The context (actor, correlation id, fields of the log) belongs to the handler's own task or thread.
That task and one timer of the loop are all there is: this runs thousands of times a second.
"""

import asyncio
from asyncio import AbstractEventLoop, Future, Task
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import Final, Protocol
from uuid import UUID

import structlog
from structlog.typing import FilteringBoundLogger

from tenantcron.core.durations import format_duration
from tenantcron.core.names import Owner
from tenantcron.scheduler.steps.attempts import (
    Attempt,
    Stop,
    ended,
    forbidden,
    refused,
    stopped,
    undecided,
)
from tenantcron.scheduler.steps.deliver import Delivery
from tenantcron.scheduler.steps.handler_context import (
    enter_context,
    fields,
    handed_over,
    no_handler,
    question_of,
)
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.schedules.targets import HttpTarget
from tenantcron.store.steps.claiming import Claimed, Lease
from tenantcron.targets.authorising import (
    LONGEST_CHECK,
    AuthorisationRequest,
    Authoriser,
    decide,
)
from tenantcron.targets.calls import Raised, call, call_plain, start_thread
from tenantcron.targets.execution import Cancellation, Execution, Transactions
from tenantcron.targets.no_tokens import NO_TOKENS
from tenantcron.targets.output import Output, collect_from_here
from tenantcron.targets.registry import Handler, Handlers
from tenantcron.targets.tokens import Tokens
from tenantcron.targets.tracing import Tracing

GRACE: Final = timedelta(seconds=5)

log: FilteringBoundLogger = structlog.get_logger()


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Let it not happen."""


# As `loop.call_later`: seconds, and what to call. Tests have their own, which waits for nothing.
CallLater = Callable[[float, Callable[[], None]], Timer]
# Is told how an attempt ended.
OnEnd = Callable[[Attempt], None]
# Makes the handler of one call of an HTTP target.
Deliver = Callable[[Claimed, ScheduleSettings, HttpTarget], Delivery]
# The tokens of an execution whose attempt may take that long, and of its owner.
MakeTokens = Callable[[Claimed, timedelta, Owner | None], Tokens]


def _no_tokens(_: Claimed, __: timedelta, ___: Owner | None) -> Tokens:
    return NO_TOKENS


class _Running:
    """One handler at work, from its start until it really ends."""

    __slots__ = (
        "asked",
        "cancellation",
        "claimed",
        "ended",
        "on_end",
        "output",
        "stop",
        "task",
        "timeout",
        "timer",
        "verdict",
        "warned",
        "why",
    )

    def __init__(
        self, claimed: Claimed, timeout: timedelta, asked: timedelta, on_end: OnEnd
    ) -> None:
        self.claimed = claimed
        self.timeout = timeout
        # What the schedule says, which may be longer than the platform allows.
        self.asked = asked
        # Of the attempt; `ended` is the end of the handler.
        self.on_end = on_end
        self.ended = False
        self.cancellation = Cancellation()
        # None: it runs in a thread.
        self.task: Task[None] | None = None
        self.timer: Timer | None = None
        self.stop: Stop | None = None
        self.why = ""
        self.warned = False
        # How it ended before its handler could start.
        self.verdict: Attempt | None = None
        # None: the handler has not started.
        self.output: Output | None = None

    def outcome(self, raised: Raised) -> Attempt:
        attempt = self._judged(raised)
        if self.output is None or self.output.is_empty:
            return attempt
        return attempt.with_output(self.output)

    def _judged(self, raised: Raised) -> Attempt:
        if self.stop is not None:
            return stopped(self.claimed, self.stop, self.why, raised)
        return self.verdict or ended(self.claimed, raised)


class Executor:
    """Runs claimed executions with the loaded handlers, in the running event loop."""

    def __init__(  # noqa: PLR0913 -- what an execution can need, each with a name
        self,
        handlers: Handlers,
        connections: Callable[[Claimed], Transactions],
        *,
        deliveries: Deliver | None = None,
        tokens: MakeTokens = _no_tokens,
        authoriser: Authoriser | None = None,
        longest_check: timedelta = LONGEST_CHECK,
        call_later: CallLater | None = None,
        tracing: Tracing | None = None,
        max_timeout: timedelta = timedelta.max,
    ) -> None:
        self._handlers = handlers
        self._max_timeout = max_timeout
        self._tracing = tracing
        self._connections = connections
        self._deliveries = deliveries
        self._tokens = tokens
        self._authoriser = authoriser
        self._longest_check = longest_check
        self._call_later = call_later
        # By lease: an execution that was lost and claimed again can be here twice.
        self._running: dict[Lease, _Running] = {}
        self._abandoned: set[_Running] = set()

    @property
    def running(self) -> tuple[Claimed, ...]:
        """What runs here: the attempts that have not ended. Any thread may ask."""
        return tuple(running.claimed for running in self._snapshot())

    @property
    def load(self) -> int:
        """How many run here."""
        return len(self._running)

    @property
    def abandoned(self) -> int:
        """How many handlers run on although their attempt has ended."""
        return len(self._abandoned)

    def has_handler(self, saga: str) -> bool:
        """Whether a loaded handler, or the catch-all, runs the saga."""
        return self._handlers.find(saga) is not None

    def start(
        self, claimed: Claimed, settings: ScheduleSettings, target: HttpTarget | None, on_end: OnEnd
    ) -> None:
        """Start a claimed execution; one that cannot be started has ended when this returns."""
        asked = settings.timeout
        if asked > self._max_timeout:
            settings = self._capped(claimed, settings)
        if target is None:
            handler = self._handlers.find(claimed.saga_name)
        elif self._deliveries is None:
            on_end(refused(claimed, "this scheduler calls no HTTP targets"))
            return
        else:
            delivery = self._deliveries(claimed, settings, target)
            handler, on_end = delivery.handler, delivery.telling(on_end)
        if handler is None:
            on_end(refused(claimed, no_handler(claimed.saga_name, self._handlers.names)))
            return
        if self._tracing is not None:
            handler = self._tracing.traced(handler)
        running = _Running(claimed, settings.timeout, asked, on_end)
        try:
            tokens = self._tokens(claimed, settings.timeout, settings.owner)
            execution = handed_over(
                claimed, settings, self._connections(claimed), tokens, running.cancellation
            )
        except KeyError as error:
            why = f"the payload has a placeholder that nothing fills: {error}"
            on_end(refused(claimed, why))
            return
        question = None
        if settings.owner is not None and self._authoriser is not None:
            question = question_of(execution, settings.owner, tokens)
        self._start(running, handler, execution, question)

    def _capped(self, claimed: Claimed, settings: ScheduleSettings) -> ScheduleSettings:
        """Give an attempt the longest time that the platform allows.

        Its schedule was applied by another policy, or its row was edited manually.
        """
        log.warning(
            "timeout_capped",
            **fields(claimed),
            timeout=format_duration(settings.timeout),
            max_timeout=format_duration(self._max_timeout),
        )
        return settings._replace(timeout=self._max_timeout)

    async def run(
        self, claimed: Claimed, settings: ScheduleSettings, target: HttpTarget | None = None
    ) -> Attempt:
        """Run a claimed execution to the end of its attempt.

        If the caller itself is cancelled, the handler is interrupted and nobody hears of its end.
        """
        finished: Future[Attempt] = asyncio.get_running_loop().create_future()

        def on_end(attempt: Attempt) -> None:
            if not finished.done():
                finished.set_result(attempt)

        self.start(claimed, settings, target, on_end)
        try:
            return await finished
        except asyncio.CancelledError:
            self.cancel(claimed.id, Stop.INTERRUPTED, lease_token=claimed.lease_token)
            raise

    def cancel(
        self, execution_id: UUID, stop: Stop, why: str = "", *, lease_token: UUID | None = None
    ) -> bool:
        """Stop an execution that runs here, or only one claim of it; False if there is none."""
        found = [
            running
            for running in self._running.values()
            if running.claimed.id == execution_id
            and lease_token in (None, running.claimed.lease_token)
        ]
        for running in found:
            self._stop(running, stop, why)
        return bool(found)

    def flag(self, lease: Lease, *, closed: bool = False) -> None:
        """Set the flags that a handler reads, in place of a loop that may be blocked; any thread.

        The loop is notified on its own way and decides how the attempt ends.
        """
        running = self._running.get(lease)
        if running is not None:
            running.cancellation.requested = True
            running.cancellation.closed = running.cancellation.closed or closed
            if closed and running.cancellation.on_close is not None:
                running.cancellation.on_close()

    def run_by(self, task: Task[object]) -> Claimed | None:
        """Return the attempt whose handler a task runs; any thread may ask."""
        by_task = (running.claimed for running in self._snapshot() if running.task is task)
        return next(by_task, None)

    def interrupt_all(self) -> None:
        """Stop everything that runs here, because the scheduler goes down."""
        for running in tuple(self._running.values()):
            self._stop(running, Stop.INTERRUPTED)

    def _snapshot(self) -> tuple[_Running, ...]:
        # Made without running any Python code, so the loop cannot change the dictionary meanwhile.
        return tuple(self._running.values())

    def _start(
        self,
        running: _Running,
        handler: Handler,
        execution: Execution,
        question: AuthorisationRequest | None,
    ) -> None:
        self._running[running.claimed.lease] = running
        loop = asyncio.get_running_loop()
        running.timer = self._later(loop, running.timeout, partial(self._expire, running))
        if question is None or self._authoriser is None:
            self._call(loop, running, handler, execution)
            return
        # In the context of here: what an authoriser does to its own is not the handler's.
        go = partial(copy_context().run, self._call, loop, running, handler, execution)
        asking = self._ask_first(running, self._authoriser, question, go)
        running.task = loop.create_task(asking)

    async def _ask_first(
        self,
        running: _Running,
        authoriser: Authoriser,
        question: AuthorisationRequest,
        go: Callable[[], None],
    ) -> None:
        """Start the handler if the owner may do this; with no decision nothing starts."""
        claimed, owner = running.claimed, question.owner
        raised: Raised = None
        try:
            enter_context(claimed, owner)
            why_not = await decide(authoriser, question, self._longest_check)
        except BaseException as error:  # noqa: BLE001 -- recorded in full; and it fails closed
            running.verdict, raised = undecided(claimed, owner, error), error
        else:
            if why_not is not None:
                running.verdict = forbidden(claimed, owner, why_not)
        # Whoever was stopped meanwhile may have swallowed it and said yes.
        if running.verdict is not None or running.stop is not None:
            self._ended(running, raised)
            return
        running.task = None
        go()

    def _call(
        self, loop: AbstractEventLoop, running: _Running, handler: Handler, execution: Execution
    ) -> None:
        if handler.is_async:
            running.task = loop.create_task(self._in_task(running, handler, execution))
            return
        body = partial(self._in_thread, loop, running, handler, execution)
        try:
            start_thread(f"saga {handler.saga}", body)
        except RuntimeError as error:  # the system has no thread left; it may have one later
            self._ended(running, error)

    async def _in_task(self, running: _Running, handler: Handler, execution: Execution) -> None:
        raised: Raised = None
        try:
            enter_context(running.claimed, execution.owner)
            log.debug("execution_started")
            running.output = collect_from_here()
            raised = await call(handler, execution)
        except BaseException as error:  # noqa: BLE001 -- recorded in full; else it never ends
            raised = error
        self._ended(running, raised)

    def _in_thread(
        self, loop: AbstractEventLoop, running: _Running, handler: Handler, execution: Execution
    ) -> None:
        enter_context(running.claimed, execution.owner)
        log.debug("execution_started")
        running.output = collect_from_here()
        raised = call_plain(handler, execution)
        # A closed loop: the scheduler is gone, and nobody waits for a handler that it abandoned.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._ended, running, raised)

    def _ended(self, running: _Running, raised: Raised) -> None:
        """The handler has really ended; maybe long after its attempt."""
        if running.ended:
            return
        running.ended = True
        if running.timer is not None:
            running.timer.cancel()
        if running not in self._abandoned:
            self._finish(running, raised)
            return
        self._abandoned.discard(running)
        if running.warned:
            log.warning("handler_ended_late", **fields(running.claimed))

    def _expire(self, running: _Running) -> None:
        why = f"timed out after {format_duration(running.timeout)}"
        if running.asked > running.timeout:
            why += f": max_timeout of the policy; its schedule has {format_duration(running.asked)}"
        self._stop(running, Stop.TIMED_OUT, why)

    def _stop(self, running: _Running, stop: Stop, why: str = "") -> None:
        """Ask a handler to stop; the first who asks decides how the attempt ends."""
        if running.stop is not None or running.ended:
            return
        running.stop, running.why = stop, why
        running.cancellation.requested = True
        # Without a lease another replica may be at the same work already.
        running.cancellation.closed = stop is Stop.LOST
        self._watch(running)
        if running.task is None:
            self._abandon(running)
            return
        # A task that is cancelled before its first step never gets to say that it has ended.
        running.task.add_done_callback(lambda _: self._ended(running, None))
        running.task.cancel()

    def _watch(self, running: _Running) -> None:
        if running.timer is not None:
            running.timer.cancel()
        loop = asyncio.get_running_loop()
        running.timer = self._later(loop, GRACE, partial(self._ignored, running))

    def _ignored(self, running: _Running) -> None:
        """The grace is over, and the handler runs on."""
        self._abandon(running)
        running.warned = True
        log.warning("handler_ignores_cancellation", stop=running.stop, **fields(running.claimed))

    def _abandon(self, running: _Running) -> None:
        """End the attempt without its handler, which may write nothing any more."""
        running.cancellation.closed = True
        if running not in self._abandoned:
            self._abandoned.add(running)
            self._finish(running, None)

    def _finish(self, running: _Running, raised: Raised) -> None:
        """The attempt has ended, whether or not its handler has."""
        del self._running[running.claimed.lease]
        running.on_end(running.outcome(raised))

    def _later(
        self, loop: AbstractEventLoop, after: timedelta, callback: Callable[[], None]
    ) -> Timer:
        return (self._call_later or loop.call_later)(after.total_seconds(), callback)
