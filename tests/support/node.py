"""Programs from npm that tests run: `make node-tools` installs them into build/node."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "node"


def node_program(path: str) -> Path:
    """Return the path of a program; skip the test without it, or fail if NODE_TESTS is set."""
    found = FOLDER / "node_modules" / path
    if (FOLDER / ".ready").exists() and found.exists():
        return found
    missing = f"{found.name} is not installed: make node-tools"
    if os.environ.get("NODE_TESTS") == "required":
        pytest.fail(missing)
    pytest.skip(missing)
