"""What all peers have in common: report when they are ready, and record the start of each job."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from struct import pack

from processes import SUBMITTED, Session


def record_start() -> None:
    """Record that a piece of work starts now: eight bytes in a file of this process."""
    os.write(_file(os.getpid()), pack("d", time.time()))


@cache
def _file(pid: int) -> int:
    """Open the file of a process; a forked process has its own file."""
    return os.open(_records() / f"{pid}.starts", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def mark_ready() -> None:
    """Report that this process has loaded all its work."""
    (_records() / f"{os.getpid()}.ready").touch()


@contextmanager
def submission() -> Iterator[None]:
    """Record the seconds that submitting takes: elapsed, and CPU with that of the server."""
    server = Session(int(os.environ["BENCH_SERVER"])) if "BENCH_SERVER" in os.environ else None
    elapsed, cpu = time.perf_counter(), _cpu_seconds(server)
    yield
    elapsed, cpu = time.perf_counter() - elapsed, _cpu_seconds(server) - cpu
    (_records() / SUBMITTED).write_text(f"{elapsed} {cpu}", encoding="ascii")


def _cpu_seconds(server: Session | None) -> float:
    return time.process_time() + (server.seconds() if server else 0.0)


def _records() -> Path:
    return Path(os.environ["BENCH_RECORDS"])


def url() -> str:
    """Return the URL of the database."""
    return os.environ["BENCH_URL"]


def arguments() -> tuple[str, str, int, float]:
    """Return the arguments: `load` or `work`, the kind, the number, the due time."""
    action, kind, number, due = sys.argv[1:]
    return action, kind, int(number), float(due)


def cron_with_seconds(due: float) -> str:
    """Return an expression that fires at that second once a year; croniter has seconds last."""
    return datetime.fromtimestamp(due, UTC).strftime("%-M %-H %-d %-m * %-S")
