"""The commands that pages show without running them have options that exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import each_page_with

from tenantcron.cli.main import ALIASES, COMMANDS, command_parser

# A block in a list is indented.
_SHELL = re.compile(r"^ *```(?:sh|bash)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# What a shell takes for the end of a command.
_END = {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>"}


def commands(page: Path) -> list[str]:
    """Return our commands in the blocks for a shell."""
    text = page.read_text(encoding="utf-8")
    joined = "\n".join(_SHELL.findall(text)).replace("\\\n", " ")
    return re.findall(r"^ *(?:\w+=\S+ )*tenantcron ([a-z].*)$", joined, re.MULTILINE)


def arguments(command: str) -> Iterator[str]:
    """Yield the words of a command, without comments and redirections."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.wordchars += "$:,={}@+%*"
    lexer.whitespace_split = True
    for word in lexer:
        if word in _END:
            return
        yield word


@each_page_with(commands)
def test_every_command_of_a_page_is_accepted(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = [command for command in commands(page) if not is_accepted(command)]
    assert refused == [], capsys.readouterr().err


def is_accepted(command: str) -> bool:
    """Whether its parser accepts a command; nothing runs."""
    name, *rest = arguments(command)
    name = ALIASES.get(name, name)
    try:
        return name in COMMANDS and command_parser(name).parse_args(rest) is not None
    except SystemExit as stop:
        return stop.code == 0  # --help


def test_a_misspelt_option_is_not_accepted() -> None:
    assert is_accepted("schedule pause acme/nightly --reason down --until 2h  # a comment")
    assert not is_accepted("schedule pause acme/nightly --reason down --untill 2h")
