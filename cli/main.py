"""The entry point of the command line: runs a command and turns errors into exit codes.

Exit codes: 0 success, 1 findings or a refused change, 2 wrong usage or an internal error. The
module of a command is imported only when that command runs, to keep the start fast.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from tenantcron.cli.pipes import drop_output
from tenantcron.core.credentials import without_credentials
from tenantcron.core.errors import TenantcronError

COMMANDS = {
    "validate": "check manifests without a database",
    "next": "show when a timetable fires",
    "explain": "explain a diagnostic code and how to fix it",
    "schema": "print the JSON Schema of manifests",
    "plan": "show what applying manifests would change",
    "apply-manifest": "apply manifests to the schedules of their tenants",
    "run": "run the scheduler",
    "serve": "serve the REST API and the dashboard",
    "token": "manage API tokens",
    "tenant": "manage tenants",
    "schedule": "show, pause, resume and trigger schedules",
    "execution": "show, retry and cancel executions",
    "limits": "show or set the concurrency limits of the cluster",
    "keys": "manage the keys that sign execution tokens",
    "webhook": "manage webhooks",
    "health": "check the health of the cluster",
    "audit": "compare expected occurrences with recorded executions",
    "why": "explain why a schedule did not run",
    "migrate": "migrate the database schema to this version",
    "uninstall": "remove tenantcron from a database",
}

_MISUSE, _INTERRUPTED, _READER_GONE = 2, 130, 141


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
        return _MISUSE
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe, so there is nothing more to print.
        drop_output()
        return _READER_GONE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception:  # noqa: BLE001 -- shown in full; Python's own exit code would mean "findings"
        from traceback import format_exc  # noqa: PLC0415 -- only needed on failure

        print(without_credentials(format_exc()), end="", file=sys.stderr)
        return _MISUSE
    return code


def _run(arguments: list[str]) -> int:
    parsed = _parser(arguments).parse_args(arguments)
    code: int = parsed.run(parsed)
    return code


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """Build the parser; only the invoked command declares its options."""
    parser = _Parser(
        prog="tenantcron",
        description="Schedule recurring work of many tenants, declared in Git.",
        epilog="`tenantcron COMMAND --help` shows a command's options and examples.",
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        required=True,
        prog=parser.prog,  # otherwise argparse formats a usage text to derive it
    )
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    # If the command comes first, its help is the only one that can be requested.
    alone = called in COMMANDS and called == arguments[0]
    for name in arguments[:1] if alone else COMMANDS:
        command = commands.add_parser(
            name, help=COMMANDS[name], formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == called:
            import_module(f"tenantcron.cli.{name.replace('-', '_')}").configure(command)
    return parser


class _Parser(argparse.ArgumentParser):
    """Masks credentials in the arguments that it quotes: errors end up in pipeline logs."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        super().error(without_credentials(message))


class _Version(argparse.Action):
    """Prints the version. Reading the package metadata is too slow for every start."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 -- see above

        print(f"tenantcron {version('tenantcron')}")
        parser.exit()
