"""The handlers of the workload: each effect is one line appended to a shared file.

A line is written by one system call, so it is complete or absent, and survives a killed process.
`B` means that a handler has started, `E` that it had its effect, `A` that the database has
acknowledged its success. Logged times are real: a shifted clock affects the scheduler, not the log.
"""

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faults.workload import POISON
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import Execution
from tenantcron.targets.python.registry import saga
from tenantcron.targets.signals import Fail

EFFECTS = "FAULTS_EFFECTS"
# How many attempts of the poison handler kill their worker, and the exit code of that worker.
KILLS = "FAULTS_POISON_KILLS"
POISONED = 137
# A file that exists once faults are over: executions that are fired later kill nothing.
FAULTS_OVER = "FAULTS_PEACE"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_now = time.time_ns

_files: dict[int, int] = {}
# Hooks that run right after an effect, and right before one.
after_effect: list[Callable[[], None]] = []
before_effect: list[Callable[[], None]] = []


def note(what: str, execution: Execution | Claimed) -> None:
    """Append a line."""
    pid, moment = os.getpid(), (execution.scheduled_for - _EPOCH) // _MICROSECOND
    line = (
        f"{what} {execution.id} {execution.attempt} {pid} {_now() // 1000} "
        f"{execution.tenant_id}/{execution.schedule_name} {moment}\n"
    )
    os.write(_file(pid), line.encode())


def _file(pid: int) -> int:
    if pid not in _files:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        _files[pid] = os.open(os.environ[EFFECTS], flags, 0o644)
    return _files[pid]


def effect(execution: Execution) -> None:
    """Have the effect; a process may die right before or after it."""
    for hook in before_effect:
        hook()
    note("E", execution)
    for hook in after_effect:
        hook()


async def work(execution: Execution) -> None:
    """Have the effect immediately."""
    effect(execution)


async def slow(execution: Execution) -> None:
    """Have the effect after 1.2 seconds."""
    note("B", execution)
    await asyncio.sleep(1.2)
    effect(execution)


@saga("hang")
async def hang(execution: Execution) -> None:
    """Hang in the first attempt."""
    note("B", execution)
    if execution.attempt == 1:
        await asyncio.Event().wait()
    effect(execution)


@saga("fail")
async def fail(execution: Execution) -> None:
    """Fail in the first two attempts."""
    if execution.attempt <= 2:
        raise RuntimeError("not yet")
    effect(execution)


@saga("block")
def block(execution: Execution) -> None:
    """Block a thread."""
    note("B", execution)
    time.sleep(0.4)
    effect(execution)


@saga("doomed")
async def doomed(_: Execution) -> None:
    """Fail permanently."""
    raise Fail("it never works")


@saga("long")
async def long(execution: Execution) -> None:
    """Take longer than a lease lasts without renewal."""
    note("B", execution)
    await asyncio.sleep(7)
    effect(execution)


def _is_after_faults(execution: Execution) -> bool:
    try:
        return Path(os.environ[FAULTS_OVER]).stat().st_mtime <= execution.scheduled_for.timestamp()
    except FileNotFoundError:
        return False


@saga(POISON)
async def poison(execution: Execution) -> None:
    """Kill the worker after the executions claimed with it have started."""
    note("B", execution)
    if execution.attempt <= int(os.environ[KILLS]) and not _is_after_faults(execution):
        await asyncio.sleep(0.7)
        os._exit(POISONED)
    effect(execution)


saga("slow")(slow)
for _number in range(8):
    saga(f"work{_number}")(work)
    saga(f"slow{_number}")(slow)
