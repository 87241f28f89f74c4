"""The commands of `make test` work in a folder whose name has a space, without a terminal."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import ROOT

# Use the environment of the test instead of creating one.
MAKE = (
    "make",
    "--no-print-directory",
    *(f"--assume-old={ready}/.ready" for ready in (".venv", "build/tools", "build/site-tools")),
    f"BIN={Path(sys.executable).parent}",
)
MADE = (".git", ".venv", "build", "dist", "*.egg-info", ".*_cache", ".hypothesis", "__pycache__")
# Variables of an outer make, and of a test process.
OUTER = ("MAKE", "PYTEST_")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository in a folder whose name has a space."""
    folder = tmp_path_factory.mktemp("made") / "a clone"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*MADE), symlinks=True)
    return folder


def made(clone: Path, *arguments: str) -> str:
    """Run make in its own session, which has no terminal, and return its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    run = subprocess.run(
        [*MAKE, *arguments],
        cwd=clone,
        env=environment | {"MYPY_CACHE_DIR": os.devnull},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout


def test_the_linter_runs(clone: Path) -> None:
    assert "All checks passed!" in made(clone, "lint")


def test_tests_run_and_can_be_selected(clone: Path) -> None:
    out = made(clone, "unit", "TESTS=-n 0 -p no:cacheprovider tests/core/test_durations.py")
    assert " passed" in out


def test_the_package_is_built_for_the_type_checkers(clone: Path) -> None:
    commands = made(clone, "--dry-run", "types").splitlines()
    # The first ones remove and install the package. The type checkers take minutes.
    first = commands[: next(n for n, line in enumerate(commands) if "mypy" in line)]
    for command in first:
        subprocess.run(command, shell=True, cwd=clone, check=True)  # noqa: S602 -- of our Makefile
    assert (clone / "build/typed/tenantcron/py.typed").exists()


def test_no_command_contains_the_path_of_the_folder(clone: Path) -> None:
    commands = made(clone, "--dry-run", "test")
    assert "mypy" in commands
    assert "pytest" in commands
    assert str(clone) not in commands
