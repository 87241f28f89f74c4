"""The layout of `--help`: sentences are wrapped, and examples stay commands that can be copied.

An indented line has a command and, after at least two spaces, what it does. If a line is too long
for the terminal, the explanations are wrapped in their column, or below their commands if too
little would be left of the line.
"""

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

_BELOW = " " * 6
_CONTINUED = " \\"
_LINE = re.compile(r"(?P<command> *\S+(?: \S+)*)(?P<gap>\s{2,})?(?P<words>\S.*)?")
# Where the shell continues a command on the next line and a reader expects it.
_BREAK = re.compile(r" (?=--|[>|<] )")
# The words that are long: ids with their tenants, and addresses.
_ARGUMENT = re.compile(r" (?=[^ '\"]+/[^ '\"]+)")

_OPTIONS = argparse.Action(["option ..."], dest="options", nargs=0)


@dataclass(frozen=True, slots=True)
class _Example:
    """A command with its indentation, what it does, and the column of these words."""

    command: str
    words: str
    column: int


class HelpFormatter(argparse.HelpFormatter):
    """Shortens the usage, wraps the sentences of a command and lays out its examples."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        """Name what a call needs. All options are listed below, or in `--help`."""
        shown = [action for action in actions if action.required or not action.option_strings]
        if len(shown) + 1 < len(list(actions)):
            super().add_usage(usage, [_OPTIONS, *shown], [], prefix)
        else:
            super().add_usage(usage, actions, groups, prefix)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for is_indented, group in groupby(text.splitlines(), lambda line: line.startswith(" ")):
            part = list(group)
            lines += _examples(part, width) if is_indented else _paragraphs(part, width)
        return "\n".join(indent + line for line in lines)


def _paragraphs(lines: list[str], width: int) -> Iterator[str]:
    for _, paragraph in groupby(lines, lambda line: not line):
        text = " ".join(paragraph)
        yield from _wrapped(text, width, "") or [""]


def _examples(lines: list[str], width: int) -> Iterator[str]:
    if all(len(line) <= width for line in lines):
        yield from lines
        return
    examples = list(_parsed(lines))
    column = max(example.column for example in examples)
    if column <= width // 2:
        for example in examples:
            yield from _beside(example, column, width)
    else:
        for example in examples:
            yield from _command(example.command, width)
            yield from _wrapped(example.words, width, _BELOW)


def _parsed(lines: list[str]) -> Iterator[_Example]:
    """Yield the examples; a line that is indented further continues the words before it."""
    found: _Example | None = None
    for line in lines:
        if found and line.startswith(_BELOW):
            words = f"{found.words} {line.strip()}".strip()
            found = _Example(found.command, words, found.column)
            continue
        if found:
            yield found
        match = _LINE.fullmatch(line)
        found = match and _Example(
            match["command"], match["words"] or "", match.start("words") if match["words"] else 0
        )
    if found:
        yield found


def _beside(example: _Example, column: int, width: int) -> Iterator[str]:
    if not example.words:
        yield from _command(example.command, width)
        return
    first, *others = _wrapped(example.words, width, " " * column)
    yield f"{example.command:<{column}}{first.lstrip()}"
    yield from others


def _command(command: str, width: int) -> Iterator[str]:
    """Break a long command before an option or a redirection, or else before an argument."""
    rest = command
    while len(rest) > width:
        room = width - len(_CONTINUED)
        ends = _ends(_BREAK, rest, room) or _ends(_ARGUMENT, rest, room)
        if not ends:
            break
        yield rest[: ends[-1]] + _CONTINUED
        rest = _BELOW + rest[ends[-1] + 1 :]
    yield rest


def _ends(pattern: re.Pattern[str], command: str, room: int) -> list[int]:
    found = (at.start() for at in pattern.finditer(command))
    return [end for end in found if len(_BELOW) < end <= room]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
