"""What all peers do alike: say when they are ready, and note when each piece of work starts."""

import os
import sys
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from struct import pack


def note() -> None:
    """Note that a piece of work starts now: eight bytes in a file of this process."""
    os.write(_file(os.getpid()), pack("d", time.time()))


@cache
def _file(pid: int) -> int:
    """Open the file of a process; one that was forked has a file of its own."""
    return os.open(_notes() / f"{pid}.starts", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def ready() -> None:
    """Say that this process has taken up all it has to hold."""
    (_notes() / f"{os.getpid()}.ready").touch()


def _notes() -> Path:
    return Path(os.environ["BENCH_NOTES"])


def url() -> str:
    """Return the address of the database."""
    return os.environ["BENCH_URL"]


def asked() -> tuple[str, str, int, float]:
    """Return what is asked for: `hold` or `work`, of which kind, how many, due when."""
    action, kind, number, due = sys.argv[1:]
    return action, kind, int(number), float(due)


def cron_with_seconds(due: float) -> str:
    """Return the expression that fires at that second once a year; croniter has seconds last."""
    return datetime.fromtimestamp(due, UTC).strftime("%-M %-H %-d %-m * %-S")
