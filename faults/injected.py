"""What is done to a scheduler inside of its own process, before it begins.

The product has no hooks for it. Functions of it are wrapped here, in the forked child, at the
places where somebody has to die or to stand still.
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
    from tenantcron.scheduler.attempts import Attempt
    from tenantcron.store.finishing import Finished

P = ParamSpec("P")
T = TypeVar("T")

STOP, KILL = int(signal.SIGSTOP), int(signal.SIGKILL)
# Seconds between two looks at how this process is treated.
_LOOK = 0.2
# Of Linux: time on a processor, time in wait of one, and how often.
_SCHEDULED = Path("/proc/self/schedstat")
# The witness tells the true time, whatever the scheduler is shown.
_now = time.time_ns


class Point(StrEnum):
    """Where a process can be struck."""

    TAKEN = "cursors taken, nothing inserted"
    INSERTED = "inserted, not committed"
    FIRED = "committed, not claimed"
    CLAIMED = "claimed, not started"
    BEFORE_EFFECT = "handler at work, no effect yet"
    AFTER_EFFECT = "effect, not finished"
    FINISHING = "finished, not committed"
    FINISHED = "finish committed"


class Fate(TypedDict, total=False):
    """What is in store for a process; nothing is, where nothing is said."""

    # Struck at the n-th time that it comes by.
    point: str
    nth: int
    signal: int
    # Seconds by which the machine's clock is wrong.
    clock: float
    # It hears no notification.
    deaf: bool
    # The most that it takes at a time, instead of all that is there.
    batch: int
    # The file in which it says when the machine kept it from running.
    held_up: str
    # The file in which it says when it looked for work, and under which name.
    progress: str
    seat: str
    # It writes down which successes the database has acknowledged.
    acknowledges: bool


def prepare(fate: Fate) -> None:
    """Make the process what its fate says."""
    if "clock" in fate:
        _shift_clock(timedelta(seconds=fate["clock"]))
    if fate.get("deaf"):
        _hear_nothing()
    if "batch" in fate:
        _take_little(fate["batch"])
    if "held_up" in fate:
        _tell_when_held_up(fate["held_up"])
    if "progress" in fate:
        _tell_progress(fate["progress"], fate["seat"])
    if fate.get("acknowledges"):
        _tell_acknowledged()
    if "point" in fate:
        _arm(Point(fate["point"]), fate["nth"], fate["signal"])


def _arm(point: Point, nth: int, number: int) -> None:
    left = nth

    def strike() -> None:
        nonlocal left
        left -= 1
        if not left:
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
    """Whether a step had something to do: nothing is no occasion to be struck."""
    for name in ("executions", "started"):
        if hasattr(result, name):
            return bool(getattr(result, name))
    return result is not None and result != 0


def _step(module: str, name: str) -> Callable[[Callable[[], None]], None]:
    """Return what strikes after a step, where a module of the product has it."""

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
    Point.TAKEN: _step("store.firing", "take_due"),
    Point.INSERTED: _step("store.firing", "fire"),
    Point.FIRED: _step("scheduler.run", "fire_batch"),
    Point.CLAIMED: _step("scheduler.run", "claim_batch"),
    Point.BEFORE_EFFECT: _before_effect,
    Point.AFTER_EFFECT: _after_effect,
    Point.FINISHING: _step("store.finishing", "finish"),
    Point.FINISHED: _step("scheduler.results", "finish_batch"),
}


def _tell_progress(file: str, seat: str) -> None:
    """Write a line when the replica has looked for work, whether there was any or not."""
    written, names = _appending(file), vars(import_module("tenantcron.scheduler.run"))
    claim, last = names["claim_batch"], 0

    async def told(*args: object, **kwargs: object) -> object:
        nonlocal last
        claimed = await claim(*args, **kwargs)
        if (moment := _now() // 1000) - last > _LOOK * 1e6:
            last = moment
            os.write(written, f"{seat} {moment}\n".encode())
        return claimed

    names["claim_batch"] = told


def _tell_acknowledged() -> None:
    """Write a line for each success that the database has acknowledged to this replica."""
    from faults import sagas  # noqa: PLC0415 -- only a scheduler has handlers

    names = vars(import_module("tenantcron.scheduler.results"))
    finish = names["finish_batch"]

    async def told(replica: object, attempts: Sequence["Attempt"]) -> "Finished":
        finished: Finished = await finish(replica, attempts)
        for attempt in attempts:
            if attempt.succeeded and attempt.claimed.lease not in finished.refused:
                sagas.note("A", attempt.claimed)
        return finished

    names["finish_batch"] = told


def _hear_nothing() -> None:
    async def listen(*_: object) -> None:
        await asyncio.Event().wait()

    vars(import_module("tenantcron.scheduler.run"))["listen"] = listen


def _take_little(batch: int) -> None:
    """Leave something to others: more transactions, and more chances to be in the midst of one."""
    vars(import_module("tenantcron.scheduler.fire"))["CURSORS_A_BATCH"] = batch
    run = vars(import_module("tenantcron.scheduler.run"))
    run["STARTS_A_BATCH"] = run["STARTS_A_LARGE_BATCH"] = batch


def _tell_when_held_up(file: str) -> None:
    """Write a line whenever the machine had something else to do than to let this process run."""
    Thread(target=_watch, args=(_appending(file),), name="held up", daemon=True).start()


def _watch(written: int) -> None:
    pid, looked_at, waited = os.getpid(), time.monotonic(), _waited()
    while True:
        time.sleep(_LOOK)
        moment, now_waited = time.monotonic(), _waited()
        # It stood still as a whole, or was ready to run and had to wait for a processor.
        lost = max(moment - looked_at - _LOOK, now_waited - waited)
        if lost > _LOOK / 2:
            os.write(written, f"{pid} {_now() // 1000} {int(lost * 1e6)}\n".encode())
        looked_at, waited = moment, now_waited


def _waited() -> float:
    """Return for how many seconds the main thread had to wait for a processor, if that is known."""
    try:
        return int(_SCHEDULED.read_text(encoding="ascii").split()[1]) / 1e9
    except OSError:
        return 0.0


def _appending(file: str) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


class _LooksLikeDatetime(type):
    """The stand-in is taken for what it stands in for."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


def _shift_clock(by: timedelta) -> None:
    """Let all modules of the product read another time from the machine."""

    class Shifted(datetime, metaclass=_LooksLikeDatetime):
        """A datetime whose now is another."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override] # not a Self
            return datetime.now(tz) + by

    real = time.time
    time.time = lambda: real() + by.total_seconds()
    for name, module in tuple(sys.modules.items()):
        if name.startswith("tenantcron") and vars(module).get("datetime") is datetime:
            vars(module)["datetime"] = Shifted
