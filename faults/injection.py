"""Faults that are injected into the process of a scheduler before it starts.

The product has no hooks for them. Its functions are wrapped here, in the forked child, at the
points where a process has to die or stop.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, ParamSpec, TypedDict, TypeVar

if TYPE_CHECKING:
    from tenantcron.scheduler.steps.attempts import Attempt
    from tenantcron.store.steps.finishing import Finished

P = ParamSpec("P")
T = TypeVar("T")

STOP, KILL = int(signal.SIGSTOP), int(signal.SIGKILL)
# Seconds between two samples of the time that this process had.
_SAMPLE_INTERVAL = 0.2
# Linux: time on a CPU, time waiting for one, and the number of time slices.
_SCHEDSTAT = Path("/proc/self/schedstat")
# Logged times are real, even if the clock of the scheduler is shifted.
_now = time.time_ns


class Point(StrEnum):
    """A point at which a process can be struck."""

    TAKEN = "cursors taken, nothing inserted"
    INSERTED = "inserted, not committed"
    FIRED = "committed, not claimed"
    CLAIMED = "claimed, not started"
    FIRED_AND_CLAIMED = "fired and claimed in one transaction, not started"
    BEFORE_EFFECT = "handler at work, no effect yet"
    AFTER_EFFECT = "effect, not finished"
    FINISHING = "finished, not committed"
    FINISHED = "finish committed"
    TASKS_INSERTED = "tasks fired, not committed"
    TASKS_FIRED = "tasks fired, not claimed"


class Injections(TypedDict, total=False):
    """The faults injected into a process; a missing key injects nothing."""

    # Struck when it reaches the point for the n-th time.
    point: str
    nth: int
    signal: int
    # Offset of the machine clock in seconds.
    clock: float
    # It receives no notifications.
    ignores_notifications: bool
    # The maximum batch size.
    batch: int
    # The file in which it logs stalls.
    stalls: str
    # The file in which it logs when it claimed, and its name there.
    progress: str
    instance: str
    # It logs which successes the database has acknowledged.
    logs_acknowledged: bool


def prepare(injections: Injections) -> None:
    """Inject the faults into this process."""
    if "clock" in injections:
        _shift_clock(timedelta(seconds=injections["clock"]))
    if injections.get("ignores_notifications"):
        _ignore_notifications()
    if "batch" in injections:
        _limit_batches(injections["batch"])
    if "stalls" in injections:
        _log_stalls(injections["stalls"])
    if "progress" in injections:
        _log_progress(injections["progress"], injections["instance"])
    if injections.get("logs_acknowledged"):
        _log_acknowledged()
    if "point" in injections:
        _arm(Point(injections["point"]), injections["nth"], injections["signal"])


def _arm(point: Point, nth: int, number: int) -> None:
    remaining = nth

    def strike() -> None:
        nonlocal remaining
        remaining -= 1
        if not remaining:
            os.kill(os.getpid(), number)

    _ARMED[point](strike)


def _after(
    function: Callable[P, Awaitable[T]], strike: Callable[[], None]
) -> Callable[P, Awaitable[T]]:
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        result = await function(*args, **kwargs)
        if _has_done(result):
            strike()
        return result

    return wrapped


def _has_done(result: object) -> bool:
    """Whether a step had work to do: an idle step is not struck."""
    for name in ("executions", "started"):
        if hasattr(result, name):
            return bool(getattr(result, name))
    return result is not None and result not in (0, {})


def _step(module: str, name: str) -> Callable[[Callable[[], None]], None]:
    """Return a function that wraps a step of the product and strikes after it."""

    def arm(strike: Callable[[], None]) -> None:
        names = vars(import_module(f"tenantcron.{module}"))
        names[name] = _after(names[name], strike)

    return arm


def _before_effect(strike: Callable[[], None]) -> None:
    from faults import sagas  # noqa: PLC0415 -- only a scheduler has handlers

    sagas.before_effect.append(strike)


def _after_effect(strike: Callable[[], None]) -> None:
    from faults import sagas  # noqa: PLC0415 -- as above

    sagas.after_effect.append(strike)


_ARMED: dict[Point, Callable[[Callable[[], None]], None]] = {
    Point.TAKEN: _step("store.steps.firing", "take_due"),
    Point.INSERTED: _step("store.steps.firing", "fire"),
    Point.FIRED: _step("scheduler.replica.fire_loop", "fire_batch"),
    Point.CLAIMED: _step("scheduler.replica.claim_loop", "claim_batch"),
    Point.FIRED_AND_CLAIMED: _step("scheduler.replica.claim_loop", "fire_and_claim"),
    Point.BEFORE_EFFECT: _before_effect,
    Point.AFTER_EFFECT: _after_effect,
    Point.FINISHING: _step("store.steps.finishing", "finish"),
    Point.FINISHED: _step("scheduler.steps.results", "finish_batch"),
    Point.TASKS_INSERTED: _step("store.steps.fire_tasks", "fire_due"),
    Point.TASKS_FIRED: _step("scheduler.replica.fire_loop", "fire_due_tasks"),
}


def _log_progress(file: str, instance: str) -> None:
    """Log the times at which the replica claimed, with or without work."""
    log, names = _appending(file), vars(import_module("tenantcron.scheduler.replica.claim_loop"))
    claim, last = names["claim_batch"], 0

    async def wrapped(*args: object, **kwargs: object) -> object:
        nonlocal last
        claimed = await claim(*args, **kwargs)
        if (moment := _now() // 1000) - last > _SAMPLE_INTERVAL * 1e6:
            last = moment
            os.write(log, f"{instance} {moment}\n".encode())
        return claimed

    names["claim_batch"] = wrapped


def _log_acknowledged() -> None:
    """Log each success that the database has acknowledged to this replica."""
    from faults import sagas  # noqa: PLC0415 -- only a scheduler has handlers

    names = vars(import_module("tenantcron.scheduler.steps.results"))
    finish = names["finish_batch"]

    async def wrapped(replica: object, attempts: Sequence["Attempt"]) -> "Finished":
        finished: Finished = await finish(replica, attempts)
        for attempt in attempts:
            if attempt.succeeded and attempt.claimed.lease not in finished.refused:
                sagas.note("A", attempt.claimed)
        return finished

    names["finish_batch"] = wrapped


def _ignore_notifications() -> None:
    async def listen(*_: object) -> None:
        await asyncio.Event().wait()

    vars(import_module("tenantcron.scheduler.replica.notification_loop"))["listen"] = listen


def _limit_batches(batch: int) -> None:
    """Take small batches, for more transactions and more chances to be interrupted in one."""
    vars(import_module("tenantcron.scheduler.steps.fire"))["CURSORS_A_BATCH"] = batch
    vars(import_module("tenantcron.scheduler.steps.fire_tasks"))["TASKS_A_BATCH"] = batch
    claim_loop = vars(import_module("tenantcron.scheduler.replica.claim_loop"))
    claim_loop["STARTS_A_BATCH"] = claim_loop["STARTS_A_LARGE_BATCH"] = batch


def _log_stalls(file: str) -> None:
    """Log when the machine did not let this process run."""
    Thread(target=_watch, args=(_appending(file),), name="stalls", daemon=True).start()


def _watch(log: int) -> None:
    pid, sampled_at, waited = os.getpid(), time.monotonic(), _waited()
    while True:
        time.sleep(_SAMPLE_INTERVAL)
        moment, now_waited = time.monotonic(), _waited()
        # The process was stopped, or was ready to run and had to wait for a CPU.
        lost = max(moment - sampled_at - _SAMPLE_INTERVAL, now_waited - waited)
        if lost > _SAMPLE_INTERVAL / 2:
            os.write(log, f"{pid} {_now() // 1000} {int(lost * 1e6)}\n".encode())
        sampled_at, waited = moment, now_waited


def _waited() -> float:
    """Return how many seconds the main thread waited for a CPU, if known."""
    try:
        return int(_SCHEDSTAT.read_text(encoding="ascii").split()[1]) / 1e9
    except OSError:
        return 0.0


def _appending(file: str) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


class _DatetimeType(type):
    """Makes isinstance checks with the replacement accept a datetime."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


def _shift_clock(by: timedelta) -> None:
    """Shift the machine time that all modules of the product read."""

    class Shifted(datetime, metaclass=_DatetimeType):
        """A datetime with a shifted `now`."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override] # not a Self
            return datetime.now(tz) + by

    real = time.time
    time.time = lambda: real() + by.total_seconds()
    for name, module in tuple(sys.modules.items()):
        if name.startswith("tenantcron") and vars(module).get("datetime") is datetime:
            vars(module)["datetime"] = Shifted
