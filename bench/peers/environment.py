"""The environment of the peers, created on first use; a peer may be missing from it."""

import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
HOME = _HERE.parents[1] / "build" / "peers"
PYTHON = HOME / "bin" / "python"
_LISTS = (_HERE / "requirements.txt", _HERE / "constraints.txt")


def install() -> None:
    """Install all requirements at once; if that fails, one by one."""
    mark = HOME / ".installed"
    wanted = "".join(file.read_text(encoding="utf-8") for file in _LISTS)
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return
    print("installing the peers into build/peers", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    if not _pip(["--requirement", str(_LISTS[0])]):
        for name in _listed():
            _pip([name])
    mark.write_text(wanted, encoding="utf-8")


def _listed() -> list[str]:
    lines = (line.partition(" #")[0].strip() for line in _LISTS[0].read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _pip(what: Iterable[str]) -> bool:
    options = ["install", "--quiet", "--disable-pip-version-check", "--constraint"]
    done = subprocess.run([PYTHON, "-m", "pip", *options, _LISTS[1], *what], check=False)
    return done.returncode == 0


@cache
def installed(modules: tuple[str, ...]) -> bool:
    """Whether a peer's modules can be imported."""
    if not PYTHON.exists():
        return False
    statement = f"import {', '.join(modules)}"
    tried = subprocess.run([PYTHON, "-c", statement], capture_output=True, check=False)
    return tried.returncode == 0
