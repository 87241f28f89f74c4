"""Colour and width of the terminal."""

import os
import sys
from typing import TextIO

_STYLES = {
    "error": "1;31",
    "warning": "1;33",
    "strong": "1",
    "dim": "2",
    "place": "36",
    "good": "1;32",
    "create": "32",
    "update": "33",
    "delete": "31",
    "drift": "35",
    # Names of rich, for styles that both use.
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "bold red": "1;31",
}
_WIDE = 120


class Palette:
    """Colours text on a terminal and leaves it plain elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        forced = os.environ.get("FORCE_COLOR")
        self._on = bool(forced) or (stream.isatty() and not os.environ.get("NO_COLOR"))

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._on else text


def width(of_pipe: int = _WIDE) -> int:
    """Return the width of a line: COLUMNS if it is set, else that of the terminal or pipe."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return of_pipe
    from shutil import get_terminal_size  # noqa: PLC0415 -- only needed on a terminal

    return get_terminal_size((of_pipe, 24)).columns
