"""The entry of the command line: finds the command, runs it, and turns errors into exit codes.

Exit codes: 0 fine, 1 findings or a refused change, 2 wrong use or an internal error. A command's
module is imported only when that command is called, so that none pays for the others.
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
    "validate": "check manifests, without a database",
    "next": "show when a timetable fires",
    "explain": "tell what a diagnostic code means and how to fix it",
    "schema": "print the JSON Schema of manifests",
    "plan": "show what applying manifests would change",
    "apply-manifest": "bring the tenants' schedules in line with their manifests",
    "run": "run the scheduler",
    "serve": "serve the REST API",
    "token": "make, list and revoke tokens of the API",
    "tenant": "create, show and change tenants",
    "schedule": "show, pause, resume and trigger schedules",
    "execution": "show, retry and cancel executions",
    "limits": "show or set how many executions run at once",
    "keys": "show and rotate the keys that sign execution tokens",
    "webhook": "add, list, test and remove webhooks, which are told of what happens",
    "health": "tell what is wrong with the whole",
    "audit": "hold what should have fired against what is on record",
    "why": "tell why a schedule did not run",
    "migrate": "bring the database's tables up to date",
    "uninstall": "remove tenantcron from a database",
}

_MISUSE, _INTERRUPTED, _READER_GONE = 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
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
        # The reader of our output (head, less) has seen enough; nothing is left to say to it.
        drop_output()
        return _READER_GONE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception:  # noqa: BLE001 -- shown in full; Python's own exit code would mean "findings"
        from traceback import format_exc  # noqa: PLC0415 -- a run that goes well does not pay for it

        print(without_credentials(format_exc()), end="", file=sys.stderr)
        return _MISUSE
    return code


def _run(arguments: list[str]) -> int:
    parsed = _parser(arguments).parse_args(arguments)
    code: int = parsed.run(parsed)
    return code


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """Build the parser; only the command that is called gets its options."""
    parser = _Parser(
        prog="tenantcron",
        description="Schedules of many tenants, declared in Git.",
        epilog="`tenantcron COMMAND --help` shows a command's options and examples.",
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        required=True,
        prog=parser.prog,  # else it is found out by formatting a usage that nobody sees
    )
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    # What follows a command is its own affair; only before one can help on all of them be wanted.
    alone = called in COMMANDS and called == arguments[0]
    for name in arguments[:1] if alone else COMMANDS:
        command = commands.add_parser(
            name, help=COMMANDS[name], formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == called:
            import_module(f"tenantcron.cli.{name.replace('-', '_')}").configure(command)
    return parser


class _Parser(argparse.ArgumentParser):
    """Quotes wrong arguments without credentials: errors end up in the logs of pipelines."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit."""
        super().error(without_credentials(message))


class _Version(argparse.Action):
    """Prints the version; reading the package's metadata is too slow to do on every start."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 -- see above

        print(f"tenantcron {version('tenantcron')}")
        parser.exit()
