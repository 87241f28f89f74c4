"""Run the command line as a user does: in a separate process and folder."""

import os
import subprocess
import sys
from pathlib import Path


def tenantcron(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    python: tuple[str, ...] = (),
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its result."""
    return subprocess.run(
        [sys.executable, *python, "-m", "tenantcron", *map(str, arguments)],
        cwd=cwd,
        env=plain_environment() | (env or {}),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def plain_environment() -> dict[str, str]:
    """Return the environment without variables that affect colours and widths."""
    return {key: value for key, value in os.environ.items() if key not in _DISPLAY}


_DISPLAY = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")
