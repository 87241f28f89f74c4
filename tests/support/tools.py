"""External tools that check the project; `make test` installs them into build/tools."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "tools"


def tool(name: str) -> Path:
    """Return the path of a tool; skip the test if the tools are not installed."""
    if not (FOLDER / ".ready").exists():
        pytest.skip("the tools are not installed: make build/tools/.ready")
    return FOLDER / "bin" / name


def run_tool(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [tool(name), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
