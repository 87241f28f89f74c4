"""The client programs of PostgreSQL, of the same build as the server of the tests."""

import os
import subprocess
from pathlib import Path

from support.builds import chosen_build

from tenantcron.store import binaries


def client(
    name: str, *arguments: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `psql`, `pg_dump` and the like without the settings of this machine's user."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    return subprocess.run(
        [_program(name), *arguments],
        input=stdin,
        env=kept | {"PSQLRC": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )


def run_script(url: str, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Let psql run a script as a DBA would: it ends at the first error."""
    return client("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", *options, "-d", url, stdin=script)


def _program(name: str) -> Path:
    """Find a program; builds that have a server only are served by the embedded one's clients."""
    build = chosen_build()
    own = build.programs() / name if build else None
    return own if own and own.exists() else binaries.programs(Path("/nowhere")) / name
