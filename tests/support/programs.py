"""The client programs of PostgreSQL, of the same build as the test server."""

import os
import subprocess
from pathlib import Path

from support.builds import chosen_build

from tenantcron.store.embedded import binaries


def client(
    name: str, *arguments: str, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `psql`, `pg_dump` and the like without the user's settings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    return subprocess.run(
        [_program(name), *arguments],
        input=stdin,
        env=kept | {"PSQLRC": "/nowhere"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def run_script(url: str, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a script with psql as a DBA would: stop at the first error."""
    return client("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", *options, "-d", url, stdin=script)


def _program(name: str) -> Path:
    """Find a program; builds without clients use those of the embedded one."""
    build = chosen_build()
    own = build.programs() / name if build else None
    return own if own and own.exists() else binaries.programs(Path("/nowhere")) / name
