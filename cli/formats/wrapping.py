"""Sentences that fit the terminal. Output to a pipe is never wrapped."""

import re
from collections.abc import Iterator

from rich.cells import cell_len

from tenantcron.cli.terminal import width
from tenantcron.core.words import visible

_UNLIMITED = 100_000
# A space and a word. A command in backticks is not broken, so that it can be copied.
_WORD = re.compile(r"(\s*)([^\s`]*`[^`]*`\S*|\S+)")


def wrapped(text: str, *, first: str = "", rest: str = "") -> Iterator[str]:
    """Yield the lines of a text, which begin with `first` and then with `rest`."""
    available, margin = width(_UNLIMITED), first
    line = ""
    for space, word in _WORD.findall(visible(text)):
        if line and cell_len(margin + line + space + word) > available:
            yield margin + line
            margin, line = rest, word
        else:
            line += space + word
    yield margin + line
