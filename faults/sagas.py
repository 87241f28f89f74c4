"""The handlers of the workload: each effect is one line at the end of a file that all share.

A line is written by one call, so it is whole or not there, and outlasts a killed process. `B` says
that a handler has begun, `E` that it had its effect, `A` that the database has acknowledged its
success. The times are the machine's own: a shifted clock shifts the scheduler, not the witness.
"""

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faults.workload import POISON
from tenantcron.store.claiming import Claimed
from tenantcron.targets.execution import Execution
from tenantcron.targets.registry import saga
from tenantcron.targets.signals import Fail

EFFECTS = "FAULTS_EFFECTS"
# How many attempts of the poison kill their worker, and the exit code of that worker.
KILLS = "FAULTS_POISON_KILLS"
POISONED = 137
# A file that is there when faults are over: executions that are fired later kill nothing.
PEACE = "FAULTS_PEACE"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_now = time.time_ns

_files: dict[int, int] = {}
# What is to happen right after an effect, and right before one.
after_effect: list[Callable[[], None]] = []
before_effect: list[Callable[[], None]] = []


def note(what: str, execution: Execution | Claimed) -> None:
    """Write a line."""
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
    for one in before_effect:
        one()
    note("E", execution)
    for one in after_effect:
        one()


async def work(execution: Execution) -> None:
    """Do it at once."""
    effect(execution)


async def slow(execution: Execution) -> None:
    """Take a while."""
    note("B", execution)
    await asyncio.sleep(1.2)
    effect(execution)


@saga("hang")
async def hang(execution: Execution) -> None:
    """Never come to an end, the first time."""
    note("B", execution)
    if execution.attempt == 1:
        await asyncio.Event().wait()
    effect(execution)


@saga("fail")
async def fail(execution: Execution) -> None:
    """Fail the first two times."""
    if execution.attempt <= 2:
        raise RuntimeError("not yet")
    effect(execution)


@saga("block")
def block(execution: Execution) -> None:
    """Hold a thread up."""
    note("B", execution)
    time.sleep(0.4)
    effect(execution)


@saga("doomed")
async def doomed(_: Execution) -> None:
    """Fail for good."""
    raise Fail("it never works")


@saga("long")
async def long(execution: Execution) -> None:
    """Take longer than a lease lasts that nobody keeps up."""
    note("B", execution)
    await asyncio.sleep(7)
    effect(execution)


def _is_in_peace(execution: Execution) -> bool:
    try:
        return Path(os.environ[PEACE]).stat().st_mtime <= execution.scheduled_for.timestamp()
    except FileNotFoundError:
        return False


@saga(POISON)
async def poison(execution: Execution) -> None:
    """Kill the worker, when whatever was claimed with it has begun and is not done."""
    note("B", execution)
    if execution.attempt <= int(os.environ[KILLS]) and not _is_in_peace(execution):
        await asyncio.sleep(0.7)
        os._exit(POISONED)
    effect(execution)


saga("slow")(slow)
for _number in range(8):
    saga(f"work{_number}")(work)
    saga(f"slow{_number}")(slow)
