"""The entry point of the command line: runs a command and turns errors into exit codes.

Exit codes: 0 success, 1 findings or a refused change, 2 wrong usage or an internal error. With
`plan --detailed-exitcode`, 2 means changes, so wrong usage and internal errors are 3. The module of
a command is imported only when that command runs, to keep the start fast.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from tenantcron.cli.pipes import drop_output
from tenantcron.core.credentials import without_credentials
from tenantcron.core.errors import TenantcronError

GROUPS = {
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
        "limits": "show or set the concurrency limits of the cluster",
    },
    "inspect": {
        "why": "explain why a schedule did not run",
        "history": "show the audit trail of a tenant or a schedule",
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
}
COMMANDS = {name: words for group in GROUPS.values() for name, words in group.items()}
ALIASES = {"apply": "apply-manifest"}

_MISUSE, _MISUSE_IF_DETAILED, _INTERRUPTED, _READER_GONE = 2, 3, 130, 141
_DETAILED = "--detailed-exitcode"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # not every console can show a manifest
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except TenantcronError as error:
        print(f"error: {error}", file=sys.stderr)
        return _misuse(arguments)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe, so there is nothing more to print.
        drop_output()
        return _READER_GONE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception:  # noqa: BLE001 -- shown in full; Python's own exit code would mean "findings"
        from traceback import format_exc  # noqa: PLC0415 -- only needed on failure

        print(without_credentials(format_exc()), end="", file=sys.stderr)
        return _misuse(arguments)
    return code


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
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
        command = commands.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == called:
            import_module(f"tenantcron.cli.{name.replace('-', '_')}").configure(command)
    return parser


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
    lines += [f"{aliases}.", "`tenantcron COMMAND --help` shows a command's options and examples."]
    return "\n".join(lines)


class _Parser(argparse.ArgumentParser):
    """Suggests what a mistyped argument may mean, and masks credentials in what it quotes."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        super().error(without_credentials(message))

    def parse_known_args(  # type: ignore[override] # typeshed declares overloads
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Reject unknown options where the options of the command are known."""
        parsed, unknown = super().parse_known_args(args, namespace)
        options = [text.partition("=")[0] for text in unknown if text.startswith("-")]
        if options:
            self.error("; ".join(self._unknown_option(option) for option in options))
        return parsed, unknown

    def _unknown_option(self, option: str) -> str:
        return f"there is no option {option}" + _meant(option, self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        is_command = action.metavar == "COMMAND"
        meant = _meant(str(value), [*choices, *ALIASES] if is_command else choices)
        # A few states or formats are worth showing, even if one of them is meant.
        if action.option_strings or not meant:
            meant = f": use one of {', '.join(choices)}" + meant.replace(": ", "; ", 1)
        raise argparse.ArgumentError(action, f"{value!r} is not known{meant}")


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
