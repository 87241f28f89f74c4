"""Tables and coloured text for the commands that are not in a hurry."""

import sys

from rich.console import Console
from rich.table import Table

# What goes into a pipe is not folded: programs and people who read it later have their own width.
_PIPE_WIDTH = 240


def output() -> Console:
    """Return the console that writes to standard output: plain and unfolded in a pipe."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False)


def plain_table(*titles: str) -> Table:
    """Return a table without lines around its cells."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table
