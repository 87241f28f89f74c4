"""Manual pages, written from the parsers: `tenantcron(1)` and one page for each command.

The format is that of the `man` macros, which man-db, groff and mandoc read.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

from tenantcron.cli.exit_codes import EXIT_CODES
from tenantcron.cli.main import COMMANDS, GROUPS, command_parser
from tenantcron.core.settings import FILE_NAME, KEYS, PREFIX

_ENVIRONMENT = {
    "TENANTCRON_SERVER": "The server to use if neither --server nor --context is given.",
    "TENANTCRON_CONTEXT": "The context to use if neither --server nor --context is given.",
    "TENANTCRON_TOKEN": "The token for a server.",
    "COLUMNS": "The width of tables, also in a pipe.",
    "NO_COLOR": "Set to any value: no colours.",
    "FORCE_COLOR": "Set to any value: colours in a pipe, too.",
    "GITHUB_STEP_SUMMARY": "A file to which plan and apply-manifest add a summary.",
}
_FILES = {
    FILE_NAME: "The policy and the settings, in the folder of the manifests or above it.",
    ".tenantcron/": "The embedded PostgreSQL, if no database URL is set.",
}
_OTHER_CODES = {
    "130": "Interrupted by Ctrl-C.",
    "141": "The reader of the output, such as head, has closed the pipe.",
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name of each page and its text."""
    yield "tenantcron.1", _text(_overview())
    for name, summary in COMMANDS.items():
        yield f"tenantcron-{name}.1", _text(_command_page(name, summary))


def _overview() -> Iterator[str]:
    yield from _head("tenantcron", "schedule recurring work of many tenants, declared in Git")
    yield from (".SH SYNOPSIS", ".B tenantcron", r"\fICOMMAND\fR [\fIoption\fR ...]")
    for purpose, commands in GROUPS.items():
        yield f".SH {_quoted(purpose.upper())}"
        for name, summary in commands.items():
            yield from (".TP", rf"\fBtenantcron\-{_plain(name)}\fR(1)", _line(summary))
    yield from _environment()
    yield from _definitions("FILES", _FILES)


def _command_page(name: str, summary: str) -> Iterator[str]:
    parser = command_parser(name)
    yield from _head(f"tenantcron-{name}", summary)
    parsers = list(_leaves(parser))
    synopses = "\n.br\n".join(_synopsis(leaf) for leaf, _ in parsers)
    yield from (".SH SYNOPSIS", synopses)
    yield from (".SH DESCRIPTION", *_paragraph(parser.description or summary))
    for leaf, words in parsers:
        yield f".SH {_quoted(_title(leaf, parser))}"
        if leaf is not parser:
            yield from _paragraph(leaf.description or words)
        yield from _arguments(leaf)
    examples = (parser.epilog or "").removeprefix("examples:\n")
    yield from (".SH EXAMPLES", ".nf", *map(_line, _dedented(examples)), ".fi")
    yield from _exit_codes(name)
    yield from (".SH SEE ALSO", r"\fBtenantcron\fR(1)")


def _leaves(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Yield the parsers of a command's actions with their summaries, or its own parser."""
    groups = [action for action in parser._actions if isinstance(action, _Actions)]
    if not groups:
        yield parser, parser.description or ""
    for group in groups:
        summaries = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for name, leaf in group.choices.items():
            yield leaf, summaries[name]


_Actions = argparse._SubParsersAction


def _title(leaf: argparse.ArgumentParser, parser: argparse.ArgumentParser) -> str:
    return "OPTIONS" if leaf is parser else leaf.prog.removeprefix(f"{parser.prog} ").upper()


def _synopsis(parser: argparse.ArgumentParser) -> str:
    named = [_positional(action) for action in parser._actions if not action.option_strings]
    return " ".join((rf"\fB{_plain(parser.prog)}\fR [\fIoption\fR ...]", *named))


def _positional(action: argparse.Action) -> str:
    shown = rf"\fI{_plain(_value(action))}\fR"
    shown += " ..." if action.nargs in ("+", "*") else ""
    return f"[{shown}]" if action.nargs in ("?", "*") else shown


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        yield ".TP"
        if action.option_strings:
            names = ", ".join(rf"\fB{_plain(name)}\fR" for name in action.option_strings)
            yield names + (rf" \fI{_plain(_value(action))}\fR" if action.nargs != 0 else "")
        else:
            yield _positional(action)
        yield _line((action.help or "").replace("%%", "%"))


def _value(action: argparse.Action) -> str:
    if action.choices is not None and not action.metavar:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def _exit_codes(name: str) -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for command, codes in EXIT_CODES.items():
        if command == name or command.startswith(f"{name} "):
            if command != name:
                yield from (".PP", f"{_plain(command)}:")
            meanings = (codes.success, codes.failure, codes.misuse)
            for code, meaning in enumerate(meanings):
                yield from (".TP", rf"\fB{code}\fR", _line(meaning.replace("`", "")))
    for other, meaning in _OTHER_CODES.items():
        yield from (".TP", rf"\fB{other}\fR", _line(meaning))


def _environment() -> Iterator[str]:
    yield from _definitions("ENVIRONMENT", _ENVIRONMENT)
    yield from (".PP", f"Each setting of {_plain(FILE_NAME)} has a variable, which overrides it:")
    names = [f"{PREFIX}{name.upper()}" for name in KEYS]
    yield from (_line(f"{name},") for name in names[:-1])
    yield _line(f"{names[-1]}.")


def _head(name: str, summary: str) -> Iterator[str]:
    release = f"tenantcron {version('tenantcron')}"
    yield f'.TH {_quoted(name.upper())} 1 "" {_quoted(release)} "User Commands"'
    # No hyphenation and no padding: options and names stay searchable.
    yield from (".nh", ".ad l", ".SH NAME", rf"{_plain(name)} \- {_plain(summary)}")


def _definitions(title: str, entries: dict[str, str]) -> Iterator[str]:
    yield f".SH {title}"
    for name, meaning in entries.items():
        yield from (".TP", rf"\fB{_plain(name)}\fR", _line(meaning))


def _paragraph(text: str) -> Iterator[str]:
    return (_line(line) for line in text.splitlines() if line)


def _dedented(text: str) -> Iterable[str]:
    return (line.removeprefix("  ") for line in text.splitlines())


def _line(text: str) -> str:
    """Return a line of text that is not taken for a request."""
    escaped = _plain(text)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _plain(text: str) -> str:
    """Escape the control characters; a bare hyphen would be shown as a typographic one."""
    return text.replace("\\", r"\e").replace("-", r"\-").replace("^", r"\(ha").replace("~", r"\(ti")


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'


def _text(lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join(lines) + "\n"
