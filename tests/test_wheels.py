"""All dependencies have wheels: a machine without a compiler can install everything.

`make setup` and the clean environment of test_packaging.py install with `--only-binary :all:`, so
they reject a dependency without a wheel for the Python at hand. A pure wheel fits every Python.
Wheels with compiled parts are looked up here, for the oldest and the newest supported Python.
"""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from support.locks import Locked, read_lock

# The oldest and the newest supported Python, except the one that runs this.
PYTHONS = sorted({"3.11", "3.13"} - {"{}.{}".format(*sys.version_info)})


def is_pure(locked: Locked) -> bool:
    """Whether the wheel is installed here and fits every Python 3."""
    try:
        installed = distribution(locked.name)
    except PackageNotFoundError:
        return False
    tags = installed.read_text("WHEEL") or ""
    return installed.version == locked.version and "-none-any" in tags


def missing_wheels(requirements: list[str], python: str, folder: Path) -> str:
    """Look up wheels in the package index; return pip's error, or nothing."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    only_wheels = ["--only-binary", ":all:", "--python-version", python, "--target", str(folder)]
    look = ["--dry-run", "--no-deps", "--ignore-installed"]
    command = [*pip, *look, *only_wheels, *requirements]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stderr if run.returncode else ""


@pytest.mark.parametrize("python", PYTHONS)
def test_every_pinned_dependency_has_a_wheel(python: str, tmp_path: Path) -> None:
    compiled = [str(locked.requirement) for locked in read_lock("dev") if not is_pure(locked)]
    assert compiled, "psycopg-binary at least has compiled parts"
    assert missing_wheels(compiled, python, tmp_path) == ""


def test_a_dependency_without_a_wheel_is_rejected(tmp_path: Path) -> None:
    # The C parser for ruamel.yaml: building it needs a compiler and Python's headers.
    missing = missing_wheels(["ruamel.yaml.clibz==0.3.7"], "3.13", tmp_path)
    assert "No matching distribution found for ruamel.yaml.clibz==0.3.7" in missing
