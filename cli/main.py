"""The entry point of the command line: runs a command and turns errors into exit codes.

Exit codes: 0 success, 1 findings or a refused change, 2 wrong usage or an internal error. With
`plan --detailed-exitcode`, 2 means changes, so wrong usage and internal errors are 3. The module of
a command is imported only when that command runs, to keep the start fast.
"""

import argparse
import errno
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from typing import NoReturn

from tenantcron.cli.pipes import drop_lost_errors, drop_output
from tenantcron.core.credentials import without_credentials
from tenantcron.core.errors import TenantcronError

GROUPS = {
    "start": {
        "init": "write a small project to start from",
        "dev": "run a project for development, with a dashboard",
    },
    "write manifests": {
        "validate": "check manifests without a database",
        "next": "show when a timetable fires",
        "explain": "explain a diagnostic code and how to fix it",
        "schema": "print the JSON Schema of manifests",
    },
    "deploy": {
        "plan": "show what applying manifests would change",
        "apply-manifest": "apply manifests to the schedules of their tenants",
    },
    "run": {
        "run": "run the scheduler",
        "serve": "serve the REST API and the dashboard",
    },
    "operate": {
        "schedule": "show, pause, resume and trigger schedules",
        "execution": "show, retry and cancel executions",
        "task": "submit, show and change one-time tasks",
        "limits": "show or set the concurrency limits of the cluster",
    },
    "inspect": {
        "why": "explain why a schedule or a task did not run",
        "logs": "show the log of an execution",
        "history": "show who changed what, and when",
        "health": "check the health of the cluster",
        "audit": "compare expected occurrences with recorded executions",
    },
    "administer": {
        "tenant": "manage tenants",
        "token": "manage API tokens",
        "keys": "manage the keys that sign execution tokens",
        "webhook": "manage webhooks",
        "migrate": "migrate the database schema to this version",
        "uninstall": "remove tenantcron from a database",
    },
    "set up": {
        "context": "manage the clusters that commands use",
        "completion": "print the completion script of a shell",
        "man": "write the manual pages",
    },
}
COMMANDS = {name: words for group in GROUPS.values() for name, words in group.items()}
ALIASES = {"apply": "apply-manifest"}

_MISUSE, _MISUSE_IF_DETAILED, _INTERRUPTED, _READER_GONE = 2, 3, 130, 141
# A disk, a quota or the size of a file is exhausted; mostly that of redirected output.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DETAILED = "--detailed-exitcode"
_REMOVAL = ("delete", "remove", "revoke", "deprovision")
_ADDITION = ("create", "add", "set", "submit")
_SYNONYMS = {
    **dict.fromkeys(("remove", "delete", "rm", "revoke"), _REMOVAL),
    **dict.fromkeys(("create", "add", "new"), _ADDITION),
    **dict.fromkeys(("get", "describe", "inspect"), ("show",)),
    "ls": ("list",),
    "run": ("trigger", "submit"),
    "start": ("trigger", "resume"),
    "stop": ("pause", "cancel"),
    "unpause": ("resume",),
}
# What the completion scripts call; not a command for people.
_COMPLETE = "__complete"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # not every console can show a manifest
    try:
        return _reported(arguments)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe, so there is nothing more to print.
        drop_output()
        return _READER_GONE
    finally:
        drop_lost_errors()


def _reported(arguments: list[str]) -> int:
    """Run a command, and print the error that ends it."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except TenantcronError as error:
        print(f"error: {without_credentials(str(error))}", file=sys.stderr)
        return _misuse(arguments)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- shown in full; Python's own exit code would mean "findings"
        _explain(error)
        return _misuse(arguments)
    return code


def _explain(error: Exception) -> None:
    """Print an error that no command expects: an exhausted disk in words, others in full."""
    if isinstance(error, OSError) and error.errno in _FULL:
        drop_output()
        print(
            f"error: a file cannot be written: {error.strerror}: free some space", file=sys.stderr
        )
        return
    from traceback import format_exc  # noqa: PLC0415 -- only needed on failure

    print(without_credentials(format_exc()), end="", file=sys.stderr)


def _misuse(arguments: Sequence[str]) -> int:
    """Return the exit code of wrong usage; a misspelt --detailed-exitcode counts, too."""
    is_plan = "plan" in arguments
    is_detailed = is_plan and any(
        argument.startswith("--d")
        and (_DETAILED.startswith(argument) or _meant(argument, [_DETAILED]))
        for argument in arguments
    )
    return _MISUSE_IF_DETAILED if is_detailed else _MISUSE


def _run(arguments: list[str]) -> int:
    if not arguments:
        _parser([]).print_help()
        return 0
    if arguments[0] == _COMPLETE:
        from tenantcron.cli.shells.complete import complete  # noqa: PLC0415 -- only needed here

        return complete(arguments[1:], ALIASES)
    called = next((at for at, text in enumerate(arguments) if not text.startswith("-")), None)
    if called is not None:
        arguments[called] = ALIASES.get(arguments[called], arguments[called])
    try:
        parsed = _parser(arguments).parse_args(arguments)
    except SystemExit as stop:  # how argparse ends, also after --help
        sys.exit(_misuse(arguments) if stop.code else 0)
    code: int = parsed.run(parsed)
    return code


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """Build the parser; only the invoked command declares its options."""
    parser = _Parser(
        prog="tenantcron",
        usage="tenantcron [-h] [--version] COMMAND ...",
        description="Schedule recurring work of many tenants, declared in Git.",
        epilog=_commands(),
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(
        metavar="COMMAND",
        help=argparse.SUPPRESS,  # the epilog shows them in groups
        required=True,
        prog=parser.prog,  # otherwise argparse formats a usage text to derive it
    )
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    # If the command comes first, its help is the only one that can be requested.
    alone = called in COMMANDS and called == arguments[0]
    for name in arguments[:1] if alone else COMMANDS:
        command = commands.add_parser(name)
        if name == called:
            _configure(command, name)
    return parser


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    parser = _Parser(prog=f"tenantcron {name}")
    _configure(parser, name)
    return parser


def _configure(parser: argparse.ArgumentParser, name: str) -> None:
    """Declare the options of a command; an action without a description has its summary."""
    import_module(f"tenantcron.cli.{name.replace('-', '_')}").configure(parser)
    for actions in parser._actions:
        if isinstance(actions, argparse._SubParsersAction):
            for action in actions._choices_actions:
                leaf, summary = actions.choices[action.dest], action.help or ""
                if leaf.description in (None, summary):
                    leaf.description = f"{summary[:1].upper()}{summary[1:]}."


def _commands() -> str:
    """Return the commands, grouped by purpose."""
    lines: list[str] = []
    for purpose, commands in GROUPS.items():
        lines += [
            f"{purpose}:",
            *(f"    {name:<16}{words}" for name, words in commands.items()),
            "",
        ]
    aliases = ", ".join(f"`{alias}` is short for `{name}`" for alias, name in ALIASES.items())
    lines += [
        f"{aliases}.",
        "",
        "`tenantcron COMMAND --help` shows a command's options and examples.",
    ]
    return "\n".join(lines)


class _Parser(argparse.ArgumentParser):
    """Suggests what a mistyped argument may mean, and masks credentials in what it quotes."""

    def format_help(self) -> str:
        """Return the help."""
        self._lay_out()
        return super().format_help()

    def format_usage(self) -> str:
        """Return the usage."""
        self._lay_out()
        return super().format_usage()

    def _lay_out(self) -> None:
        """Set the formatter; argparse also creates one for each argument, whatever its class."""
        from tenantcron.cli.help_text import HelpFormatter  # noqa: PLC0415 -- only needed for help

        self.formatter_class = HelpFormatter

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        super().error(without_credentials(message))

    def parse_known_args(  # type: ignore[override] # typeshed declares overloads
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Reject unknown options where the options of the command are known."""
        if self._subparsers is None:
            given = list(takewhile(lambda text: text != "--", args or ()))
            if "-h" in given or "--help" in given:
                # Before the other arguments, which may be wrong or missing.
                self.print_help()
                self.exit()
            # First: a misspelt option also looks like a missing one.
            self._reject(text for text in given if text.startswith("--"))
        parsed, unknown = super().parse_known_args(args, namespace)
        self._reject(text for text in unknown if text.startswith("-"))
        return parsed, unknown

    def _reject(self, texts: Iterable[str]) -> None:
        """Report the options that this parser does not have."""
        options = [text.partition("=")[0] for text in texts]
        unknown = [option for option in options if not self._has(option)]
        if unknown:
            self.error("; ".join(self._unknown_option(option) for option in unknown))

    def _has(self, option: str) -> bool:
        """Whether it is an option, or abbreviates one as argparse allows it."""
        return any(
            known == option or (option.startswith("--") and known.startswith(option))
            for known in self._option_string_actions
        )

    def _unknown_option(self, option: str) -> str:
        return f"there is no option {option}" + _meant(option, self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if action.metavar == "COMMAND":
            raise argparse.ArgumentError(action, f"{value!r} is not known{_command(str(value))}")
        meant = _synonym(str(value), choices) or _meant(str(value), choices)
        # A few states or formats are worth showing, even if one of them is meant.
        if action.option_strings or not meant:
            meant = f": use one of {', '.join(choices)}" + meant.replace(": ", "; ", 1)
        raise argparse.ArgumentError(action, f"{value!r} is not known{meant}")


def _command(text: str) -> str:
    """Return what an unknown command may mean; `pause` is an action of `schedule`."""
    from tenantcron.cli.shells.command_table import load_commands  # noqa: PLC0415 -- only on failure

    holders = [name for name, command in load_commands().items() if text in command["actions"]]
    if holders:
        return f": did you mean {', '.join(f'{name} {text}' for name in holders)}?"
    return _meant(text, [*COMMANDS, *ALIASES]) or ": `tenantcron --help` lists the commands"


def _synonym(text: str, choices: Sequence[str]) -> str:
    """Suggest the action of this command for its name in other commands and programs."""
    found = next((name for name in _SYNONYMS.get(text, ()) if name in choices), None)
    return f": did you mean {found}?" if found else ""


def _meant(text: str, candidates: Iterable[str]) -> str:
    from tenantcron.core.suggest import close_match  # noqa: PLC0415 -- only needed on failure

    found = close_match(text, candidates)
    return f": did you mean {found}?" if found else ""


class _Version(argparse.Action):
    """Prints the version. Reading the package metadata is too slow for every start."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 -- see above

        print(f"tenantcron {version('tenantcron')}")
        parser.exit()
