"""`tenantcron __complete WORD ...`: what the completion scripts of all shells call.

The words are those after the program name, up to the cursor. Each line of output is a candidate
and, after a tab, its summary. The line `:paths` lets the shell complete paths. A candidate that
ends with `/` or `=` is not complete yet, so the shell adds no space.
"""

from collections.abc import Iterable, Sequence

from tenantcron.cli.shells.candidates import Candidate, Expected, expected
from tenantcron.cli.shells.command_table import CommandEntry, ValueKind, load_commands

PATHS = ":paths"
_OPTIONS = {"--help": "show this help message and exit", "--version": "show the version"}


def complete(words: Sequence[str], aliases: dict[str, str]) -> int:
    """Print the candidates for the last word."""
    commands = load_commands()
    commands |= {alias: commands[name] for alias, name in aliases.items()}
    root: CommandEntry = {
        "summary": "",
        "options": {name: {"summary": summary} for name, summary in _OPTIONS.items()},
        "arguments": [],
        "actions": commands,
    }
    for line in _lines(expected(words, root), words):
        print(line)
    return 0


def _lines(found: Expected, words: Sequence[str]) -> Iterable[str]:
    if found.kind is ValueKind.PATH:
        return (PATHS,)
    return map(_line, [*found.candidates, *_looked_up(found, words)])


def _looked_up(found: Expected, words: Sequence[str]) -> Iterable[Candidate]:
    if found.kind is ValueKind.TEXT:
        return ()
    from tenantcron.cli.shells.names import names  # noqa: PLC0415 -- only for names, which take longer

    return (Candidate(f"{found.prefix}{name}") for name in names(found.kind, found.word, words))


def _line(candidate: Candidate) -> str:
    return f"{candidate.text}\t{candidate.summary}" if candidate.summary else candidate.text
