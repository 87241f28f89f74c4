"""Tables and coloured text, for commands whose start-up time does not matter."""

import sys
from shutil import get_terminal_size

from rich.console import Console
from rich.table import Table

# Output to a pipe is not wrapped: its reader has its own width.
_PIPE_WIDTH = 240


class _Output(Console):
    """A console that raises BrokenPipeError for a closed pipe instead of exiting with 1."""

    def on_broken_pipe(self) -> None:
        """Let the command decide: a reader such as head closes the pipe on purpose."""
        raise BrokenPipeError


def output() -> Console:
    """Return the console for standard output: plain and not wrapped in a pipe."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return _Output(file=sys.stdout, width=width, highlight=False)


def columns_available() -> int:
    """Return the width of a line of output."""
    return get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH


def plain_table(*titles: str) -> Table:
    """Return a table without borders."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table
