"""Tables and coloured text, for commands whose start-up time does not matter."""

import sys
from collections.abc import Sequence

from rich.console import Console

from tenantcron.cli.columns import Column, lines
from tenantcron.cli.terminal import Palette, width

# Output to a pipe is not wrapped: its reader has its own width.
_PIPE_WIDTH = 240
# Wider than any row, so nothing is cut.
_UNLIMITED = 100_000


class _Output(Console):
    """A console that raises BrokenPipeError for a closed pipe instead of exiting with 1."""

    def on_broken_pipe(self) -> None:
        """Let the command decide: a reader such as head closes the pipe on purpose."""
        raise BrokenPipeError


def output(*, is_wide: bool = False) -> Console:
    """Return the console for standard output: its width is for tables, sentences never break."""
    columns = columns_available(is_wide=is_wide)
    return _Output(file=sys.stdout, width=columns, soft_wrap=True, highlight=False)


def columns_available(*, is_wide: bool = False) -> int:
    """Return the width of a line of output."""
    return _UNLIMITED if is_wide else width(_PIPE_WIDTH)


def print_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the console."""
    for line in lines(columns, rows, Palette(sys.stdout), console.width):
        print(line)
