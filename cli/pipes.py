"""Pipes whose reader closes early: `tenantcron schedule list | head`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Discard output of the block once the reader has closed the pipe.

    A closed pipe is not a failure, so the exit code of the command does not change.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Redirect further output to the null device."""
    _drop(sys.stdout)


def drop_lost_errors() -> None:
    """Redirect errors to the null device if their reader is gone.

    Otherwise, Python fails to flush them when it exits, and replaces the exit code.
    """
    try:
        sys.stderr.flush()
    except BrokenPipeError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
