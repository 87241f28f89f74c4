"""An attempt while its handler runs."""

from asyncio import Task
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

from tenantcron.scheduler.steps.attempts import Attempt, Stop, ended, stopped
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.calls import Raised
from tenantcron.targets.execution import Cancellation
from tenantcron.targets.output import Output


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


# Like `loop.call_later`: seconds and a callback. Tests use a fake clock.
CallLater = Callable[[float, Callable[[], None]], Timer]
# Receives the attempt when it has ended.
OnEnd = Callable[[Attempt], None]


class StoredLog(NamedTuple):
    """What `live_logs` has stored of the log of a running attempt."""

    end_position: int = 0
    rows: int = 0
    # In bytes.
    size: int = 0


UNKNOWN_LOG: Final = StoredLog()


class RunningAttempt:
    """An attempt, from its start until its handler has ended."""

    __slots__ = (
        "asked",
        "cancellation",
        "claimed",
        "ended",
        "on_end",
        "output",
        "stop",
        "stored_log",
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
        # The timeout of the schedule, which may be longer than the platform allows.
        self.asked = asked
        # Called when the attempt ends. The handler may end later: `ended`.
        self.on_end = on_end
        self.ended = False
        self.cancellation = Cancellation()
        # None: the handler runs in a thread.
        self.task: Task[None] | None = None
        self.timer: Timer | None = None
        self.stop: Stop | None = None
        self.why = ""
        self.warned = False
        # The outcome, if the authoriser kept the handler from starting.
        self.verdict: Attempt | None = None
        # None: the handler has not started.
        self.output: Output | None = None
        # None: nothing of its log was stored while it runs.
        self.stored_log: StoredLog | None = None

    def outcome(self, raised: Raised) -> Attempt:
        """Return the attempt with its outcome and the output of its handler."""
        attempt = self._attempt(raised)
        if self.output is None or self.output.is_empty:
            return attempt
        return attempt.with_output(self.output, is_stored=self.stored_log is not None)

    def _attempt(self, raised: Raised) -> Attempt:
        if self.stop is not None:
            return stopped(self.claimed, self.stop, self.why, raised)
        return self.verdict or ended(self.claimed, raised)
