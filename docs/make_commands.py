"""The reference of all commands, generated from their parsers.

`pages()` returns a page for each command, for the documentation site. They are generated when the
site is built, so they cannot differ from `--help` and from the manual pages.
"""

import argparse
from collections.abc import Iterator

from tenantcron.cli.exit_codes import EXIT_CODES
from tenantcron.cli.main import COMMANDS, command_parser

_PROGRAM = "tenantcron"


def pages() -> dict[str, str]:
    """Return the page of each command, by the name of the command."""
    return {name: "\n".join(_page(name, summary)) for name, summary in COMMANDS.items()}


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the actions of a command, such as `pause` of `schedule`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _page(name: str, summary: str) -> Iterator[str]:
    parser = command_parser(name)
    yield f"# tenantcron {name}\n"
    yield f"{parser.description or _sentence(summary)}\n"
    yield from _described(parser)
    for action in actions(parser).values():
        yield f"## {action.prog.removeprefix(_PROGRAM + ' ')}\n"
        if action.description:
            yield f"{_sentence(action.description)}\n"
        yield from _described(action)
    if parser.epilog:
        yield from _examples(parser.epilog)
    yield from _exit_codes(name)


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    # Continued lines are aligned with what follows `usage: `.
    usage = parser.format_usage().removeprefix("usage: ").replace("\n" + " " * 7, "\n")
    yield f"```text\n{usage.rstrip()}\n```\n"
    rows = [row for action in parser._actions for row in _row(parser, action)]
    if rows:
        yield "| argument | meaning |"
        yield "|---|---|"
        yield from rows
        yield ""


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    is_hidden = action.help == argparse.SUPPRESS
    if is_hidden or isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
        return
    formatter = parser._get_formatter()
    if action.option_strings:
        value = "" if action.nargs == 0 else f" {_value(formatter, action)}"
        names = ", ".join(f"`{name}{value}`" for name in action.option_strings)
    else:
        names = f"`{_value(formatter, action)}`"
    meaning = formatter._expand_help(action) if action.help else ""
    yield f"| {_cell(names)} | {_cell(meaning)} |"


def _value(formatter: argparse.HelpFormatter, action: argparse.Action) -> str:
    default = action.dest.upper() if action.option_strings else action.dest
    return formatter._format_args(action, default)


def _examples(epilog: str) -> Iterator[str]:
    """Show the examples of a help text as a block, and its other paragraphs as text."""
    for paragraph in epilog.strip().split("\n\n"):
        title, _, body = paragraph.partition(":\n")
        if body:
            lines = "\n".join(line.removeprefix("  ") for line in body.splitlines())
            yield f"## {title.capitalize()}\n\n```text\n{lines}\n```\n"
        else:
            yield f"{paragraph}\n"


def _exit_codes(name: str) -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| command | 0 | 1 | 2 |"
    yield "|---|---|---|---|"
    for command, codes in EXIT_CODES.items():
        if command == name or command.startswith(f"{name} "):
            yield f"| `{command}` | {codes.success} | {codes.failure} | {codes.misuse} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:].rstrip('.')}."
