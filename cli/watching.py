"""`--watch`: repeats a command, and redraws its output in place.

In a terminal, each frame overwrites the last one on the alternate screen, so nothing flickers and
the scrollback stays clean. JSON and YAML print a document for each frame, also into a pipe. It ends
with Ctrl-C, and like every command with exit code 130.
"""

import argparse
import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from shutil import get_terminal_size
from typing import TypeVar

from tenantcron.core.errors import UsageError

SHORTEST, LONGEST, DEFAULT = 0.5, 3_600.0, 2.0
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
Draw = Callable[[], Awaitable[int]]
T = TypeVar("T")


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=_seconds,
        const=DEFAULT,
        help=f"repeat it every SECONDS ({DEFAULT:g}), until Ctrl-C",
    )


def watched_seconds(arguments: argparse.Namespace) -> float | None:
    """Return the interval; None if the command runs once."""
    seconds: float | None = getattr(arguments, "watch", None)
    if seconds is not None:
        if arguments.format == "csv":
            raise UsageError("--watch has no CSV: use --format json, a document for each frame")
        if arguments.format == "text" and not sys.stdout.isatty():
            raise UsageError(
                "--watch redraws a terminal, and the output is not one: use --format json"
            )
    return seconds


def repeated(
    arguments: argparse.Namespace, work: Callable[[T], Awaitable[int]]
) -> Callable[[T], Awaitable[int]]:
    """Return work that prints, or work that repeats it if --watch is given."""
    seconds = watched_seconds(arguments)
    if seconds is None:
        return work

    async def again(cluster: T) -> int:
        return await watch(arguments.format, seconds, lambda: work(cluster))

    return again


async def watch(output_format: str, seconds: float, draw: Draw) -> int:
    """Draw again and again; `draw` prints to standard output."""
    if output_format != "text":
        while True:
            print(_document(output_format, await _captured(io.StringIO(), draw)), flush=True)
            await asyncio.sleep(seconds)
    with _alternate_screen():
        while True:
            text = await _captured(_Frame(), draw)
            sys.stdout.write(_in_place(text, get_terminal_size().lines))
            sys.stdout.flush()
            await asyncio.sleep(seconds)


class _Frame(io.StringIO):
    """Collects the output for a terminal, so that it has colours and the terminal's width."""

    def isatty(self) -> bool:
        return True


async def _captured(frame: io.StringIO, draw: Draw) -> str:
    with redirect_stdout(frame):
        await draw()
    return frame.getvalue()


def _document(output_format: str, text: str) -> str:
    return json.dumps(json.loads(text)) if output_format == "json" else f"---\n{text}".rstrip()


@contextmanager
def _alternate_screen() -> Iterator[None]:
    sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def _in_place(text: str, rows: int) -> str:
    """Return a frame that overwrites the last one; what does not fit is counted."""
    lines = text.splitlines()
    if len(lines) > rows:
        hidden = len(lines) - rows + 1
        lines = [*lines[: rows - 1], f"… {hidden} more lines"]
    return _HOME + "\n".join(f"{line}{_END_OF_LINE}" for line in lines) + _END_OF_SCREEN


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SHORTEST <= seconds <= LONGEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds from {SHORTEST:g} to {LONGEST:g}"
        )
    return seconds
