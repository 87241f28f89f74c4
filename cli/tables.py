"""Tables and coloured text for the commands that are not in a hurry."""

import sys
from shutil import get_terminal_size

from rich.console import Console
from rich.table import Table

# What goes into a pipe is not folded: programs and people who read it later have their own width.
_PIPE_WIDTH = 240


class _Output(Console):
    """A console that reports a reader that is gone as Python does, instead of ending with 1."""

    def on_broken_pipe(self) -> None:
        """Let the command decide: a reader such as head has seen enough."""
        raise BrokenPipeError


def output() -> Console:
    """Return the console that writes to standard output: plain and unfolded in a pipe."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return _Output(file=sys.stdout, width=width, highlight=False)


def columns_available() -> int:
    """Return how many columns a line of output may take."""
    return get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH


def plain_table(*titles: str) -> Table:
    """Return a table without lines around its cells."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table
