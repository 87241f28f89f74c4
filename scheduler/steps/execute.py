"""Execute: run a claimed execution, and report how the attempt ended.

An attempt ends in exactly one way. The caller's callback receives the outcome once, in the event
loop. Errors of a handler are never raised here.

- The handler returns: SUCCEEDED. It raises: FAILED, with the full error. `Retry` and `Fail` decide
  whether there is another attempt.
- The timeout expires: TIMED_OUT. A user cancels: CANCELLED. The scheduler shuts down: INTERRUPTED.
  The lease is lost: LOST. The first of these decides, even if the handler then cleans up and
  returns: it has not done its work.

An attempt at a target is an async handler that is created for it (`deliver`).

If an execution has an owner and an authoriser is loaded, the authoriser must allow the execution
before its handler starts. A refusal ends the attempt as REFUSED. A failed check ends it as FAILED,
and the next attempt checks again. All other executions start at once.

How a handler is stopped: an async handler gets a CancelledError and a grace period for clean-up. A
plain handler cannot be stopped: its attempt ends at once, and the handler can read a flag. When an
attempt has ended, its transactions are rolled back. A handler that continues after that is
abandoned: it holds no slot, `Executor.abandoned` counts it until it ends, and a warning is logged
when the grace period is over.

The context (actor, correlation id, log fields) belongs to the handler's own task or thread. An
attempt costs only that task and one timer, because this code runs thousands of times a second.
"""

import asyncio
from asyncio import AbstractEventLoop, Future, Task
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from structlog.typing import FilteringBoundLogger

from tenantcron.core.durations import format_duration
from tenantcron.core.names import Owner
from tenantcron.core.targets import Target
from tenantcron.core.wake_signal import WakeSignal
from tenantcron.scheduler.steps.attempts import Attempt, Stop, forbidden, refused, undecided
from tenantcron.scheduler.steps.deliver import Delivery
from tenantcron.scheduler.steps.handler_context import (
    authorisation_request,
    build_execution,
    enter_context,
    fields,
    no_handler_message,
)
from tenantcron.scheduler.steps.running_attempt import CallLater, OnEnd, RunningAttempt, Timer
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.store.steps.claiming import Claimed, Lease
from tenantcron.targets.authorising import (
    LONGEST_CHECK,
    AuthorisationRequest,
    Authoriser,
    decide,
)
from tenantcron.targets.calls import Raised, call, call_plain, start_thread
from tenantcron.targets.execution import Execution, Transactions
from tenantcron.targets.handlers import Handler
from tenantcron.targets.no_tokens import NO_TOKENS
from tenantcron.targets.output import collect_from_here
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.tokens import Tokens
from tenantcron.targets.tracing import Tracing

GRACE: Final = timedelta(seconds=5)

log: FilteringBoundLogger = structlog.get_logger()


# Makes the handler for one attempt at a target.
Deliver = Callable[[Claimed, ScheduleSettings, Target], Delivery | None]
# Makes the tokens of an execution, from its timeout and its owner.
MakeTokens = Callable[[Claimed, timedelta, Owner | None], Tokens]


def _no_tokens(_: Claimed, __: timedelta, ___: Owner | None) -> Tokens:
    return NO_TOKENS


class Executor:
    """Runs claimed executions with the loaded handlers, in the running event loop."""

    def __init__(  # noqa: PLR0913 -- the services that an execution can use, each with a name
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
        # By lease, because an execution that was lost and claimed again can run here twice.
        self._running: dict[Lease, RunningAttempt] = {}
        self._abandoned: set[RunningAttempt] = set()
        # Set when an attempt starts and no other one runs.
        self.busy = WakeSignal()

    @property
    def running(self) -> tuple[Claimed, ...]:
        """The attempts that run here. Thread-safe."""
        return tuple(running.claimed for running in self._snapshot())

    @property
    def attempts(self) -> tuple[RunningAttempt, ...]:
        """The attempts that run here, with their outputs."""
        return self._snapshot()

    @property
    def load(self) -> int:
        """The number of attempts that run here."""
        return len(self._running)

    @property
    def abandoned(self) -> int:
        """The number of handlers that continue to run after their attempt has ended."""
        return len(self._abandoned)

    def has_handler(self, saga: str) -> bool:
        """Whether a loaded handler, or the catch-all, runs the saga."""
        return self._handlers.find(saga) is not None

    def start(
        self, claimed: Claimed, settings: ScheduleSettings, target: Target | None, on_end: OnEnd
    ) -> None:
        """Start a claimed execution. If it cannot start, it has ended when this returns."""
        asked = settings.timeout
        if asked > self._max_timeout:
            settings = self._capped(claimed, settings)
        if target is None:
            handler = self._handlers.find(claimed.saga_name)
        elif self._deliveries is None:
            on_end(refused(claimed, "this scheduler serves no targets"))
            return
        else:
            delivery = self._deliveries(claimed, settings, target)
            if delivery is None:
                on_end(refused(claimed, f"this scheduler serves no {target.kind} targets"))
                return
            handler, on_end = delivery.handler, delivery.with_answer(on_end)
        if handler is None:
            on_end(refused(claimed, no_handler_message(claimed.saga_name, self._handlers.names)))
            return
        if self._tracing is not None:
            handler = self._tracing.traced(handler)
        running = RunningAttempt(claimed, settings.timeout, asked, on_end)
        try:
            tokens = self._tokens(claimed, settings.timeout, settings.owner)
            execution = build_execution(
                claimed, settings, self._connections(claimed), tokens, running.cancellation
            )
        except KeyError as error:
            why = f"the payload has a placeholder that nothing fills: {error}"
            on_end(refused(claimed, why))
            return
        request = None
        if settings.owner is not None and self._authoriser is not None:
            request = authorisation_request(execution, settings.owner, tokens)
        self._start(running, handler, execution, request)

    def _capped(self, claimed: Claimed, settings: ScheduleSettings) -> ScheduleSettings:
        """Reduce the timeout to the maximum of the platform.

        The schedule was applied under another policy, or its row was edited manually.
        """
        log.warning(
            "timeout_capped",
            **fields(claimed),
            timeout=format_duration(settings.timeout),
            max_timeout=format_duration(self._max_timeout),
        )
        return settings._replace(timeout=self._max_timeout)

    async def run(
        self, claimed: Claimed, settings: ScheduleSettings, target: Target | None = None
    ) -> Attempt:
        """Run a claimed execution until its attempt ends.

        If the caller is cancelled, the handler is interrupted and its outcome is not reported.
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
        """Stop an execution, or only one claim of it; return False if it does not run here."""
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
        """Set the flags that a handler reads, even if the loop is blocked. Thread-safe.

        The loop is notified separately and decides how the attempt ends.
        """
        running = self._running.get(lease)
        if running is not None:
            running.cancellation.requested = True
            running.cancellation.closed = running.cancellation.closed or closed
            if closed and running.cancellation.on_close is not None:
                running.cancellation.on_close()

    def run_by(self, task: Task[object]) -> Claimed | None:
        """Return the attempt whose handler a task runs. Thread-safe."""
        by_task = (running.claimed for running in self._snapshot() if running.task is task)
        return next(by_task, None)

    def interrupt_all(self) -> None:
        """Stop all attempts, because the scheduler shuts down."""
        for running in tuple(self._running.values()):
            self._stop(running, Stop.INTERRUPTED)

    def _snapshot(self) -> tuple[RunningAttempt, ...]:
        # `tuple` runs no Python code here, so the loop cannot change the dictionary meanwhile.
        return tuple(self._running.values())

    def _start(
        self,
        running: RunningAttempt,
        handler: Handler,
        execution: Execution,
        request: AuthorisationRequest | None,
    ) -> None:
        self._running[running.claimed.lease] = running
        if len(self._running) == 1:
            self.busy.set()
        loop = asyncio.get_running_loop()
        running.timer = self._later(loop, running.timeout, partial(self._expire, running))
        if request is None or self._authoriser is None:
            self._call(loop, running, handler, execution)
            return
        # In this context, so that the handler does not inherit the authoriser's changes to its own.
        start = partial(copy_context().run, self._call, loop, running, handler, execution)
        authorising = self._authorise(running, self._authoriser, request, start)
        running.task = loop.create_task(authorising)

    async def _authorise(
        self,
        running: RunningAttempt,
        authoriser: Authoriser,
        request: AuthorisationRequest,
        start: Callable[[], None],
    ) -> None:
        """Start the handler if the authoriser allows it. A failed check starts nothing."""
        claimed, owner = running.claimed, request.owner
        raised: Raised = None
        try:
            enter_context(claimed, owner)
            why_not = await decide(authoriser, request, self._longest_check)
        except BaseException as error:  # noqa: BLE001 -- recorded in full, and it fails closed
            running.verdict, raised = undecided(claimed, owner, error), error
        else:
            if why_not is not None:
                running.verdict = forbidden(claimed, owner, why_not)
        # An authoriser may swallow the cancellation of a stopped attempt and return a decision.
        if running.verdict is not None or running.stop is not None:
            self._ended(running, raised)
            return
        running.task = None
        start()

    def _call(
        self,
        loop: AbstractEventLoop,
        running: RunningAttempt,
        handler: Handler,
        execution: Execution,
    ) -> None:
        if handler.is_async:
            running.task = loop.create_task(self._in_task(running, handler, execution))
            return
        body = partial(self._in_thread, loop, running, handler, execution)
        try:
            start_thread(f"saga {handler.saga}", body)
        except RuntimeError as error:  # no more threads; a retry may succeed
            self._ended(running, error)

    async def _in_task(
        self, running: RunningAttempt, handler: Handler, execution: Execution
    ) -> None:
        raised: Raised = None
        try:
            enter_context(running.claimed, execution.owner)
            log.debug("execution_started")
            running.output = collect_from_here()
            raised = await call(handler, execution)
        except BaseException as error:  # noqa: BLE001 -- recorded in full; otherwise it never ends
            raised = error
        self._ended(running, raised)

    def _in_thread(
        self,
        loop: AbstractEventLoop,
        running: RunningAttempt,
        handler: Handler,
        execution: Execution,
    ) -> None:
        enter_context(running.claimed, execution.owner)
        log.debug("execution_started")
        running.output = collect_from_here()
        raised = call_plain(handler, execution)
        # The loop is closed: the scheduler has stopped and abandoned this handler.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._ended, running, raised)

    def _ended(self, running: RunningAttempt, raised: Raised) -> None:
        """Handle the end of a handler, which may come long after the end of its attempt."""
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

    def _expire(self, running: RunningAttempt) -> None:
        why = f"timed out after {format_duration(running.timeout)}"
        if running.asked > running.timeout:
            why += f": max_timeout of the policy; its schedule has {format_duration(running.asked)}"
        self._stop(running, Stop.TIMED_OUT, why)

    def _stop(self, running: RunningAttempt, stop: Stop, why: str = "") -> None:
        """Ask a handler to stop. The first request decides how the attempt ends."""
        if running.stop is not None or running.ended:
            return
        running.stop, running.why = stop, why
        running.cancellation.requested = True
        # Without a lease another replica may already run the same execution.
        running.cancellation.closed = stop is Stop.LOST
        running.cancellation.interrupted = stop in (Stop.LOST, Stop.INTERRUPTED)
        self._watch(running)
        if running.task is None:
            self._abandon(running)
            return
        # A task that is cancelled before its first step does not report its end itself.
        running.task.add_done_callback(lambda _: self._ended(running, None))
        running.task.cancel()

    def _watch(self, running: RunningAttempt) -> None:
        if running.timer is not None:
            running.timer.cancel()
        loop = asyncio.get_running_loop()
        running.timer = self._later(loop, GRACE, partial(self._ignored, running))

    def _ignored(self, running: RunningAttempt) -> None:
        """Abandon a handler that still runs after the grace period."""
        self._abandon(running)
        running.warned = True
        log.warning("handler_ignores_cancellation", stop=running.stop, **fields(running.claimed))

    def _abandon(self, running: RunningAttempt) -> None:
        """End the attempt while its handler still runs, and stop it from committing."""
        running.cancellation.closed = True
        if running not in self._abandoned:
            self._abandoned.add(running)
            self._finish(running, None)

    def _finish(self, running: RunningAttempt, raised: Raised) -> None:
        """Report the end of the attempt, whether or not its handler has ended."""
        del self._running[running.claimed.lease]
        running.on_end(running.outcome(raised))

    def _later(
        self, loop: AbstractEventLoop, after: timedelta, callback: Callable[[], None]
    ) -> Timer:
        return (self._call_later or loop.call_later)(after.total_seconds(), callback)
