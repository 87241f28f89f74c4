"""The lock files agree with pyproject.toml, and pip accepts nothing that is not in them."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.locks import FOLDER, NAMES, Locked, read_lock

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = {"dev": {"dev"}, "runtime": {"api", "fast"}}
OWN_NAME = "tenantcron"


def declared(extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield what pyproject.toml asks for, its own extras followed."""
    for text in PROJECT["dependencies"]:
        yield Requirement(text)
    for extra in extras:
        for text in PROJECT["optional-dependencies"][extra]:
            requirement = Requirement(text)
            if requirement.name == OWN_NAME:
                yield from declared(requirement.extras)
            else:
                yield requirement


def wanted(lock: str) -> list[Requirement]:
    if lock == "build":
        return [Requirement(text) for text in PYPROJECT["build-system"]["requires"]]
    if lock in PYPROJECT["dependency-groups"]:
        return [Requirement(text) for text in PYPROJECT["dependency-groups"][lock]]
    return list(declared(EXTRAS[lock]))


def by_name(lock: str) -> dict[str, Locked]:
    return {locked.name: locked for locked in read_lock(lock)}


@pytest.mark.parametrize("lock", NAMES)
def test_a_lock_has_a_version_that_fits_for_everything_that_is_declared(lock: str) -> None:
    entries = by_name(lock)
    for requirement in wanted(lock):
        locked = entries[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(locked.version, prereleases=True), requirement


@pytest.mark.parametrize("lock", EXTRAS)
def test_a_lock_has_what_the_declared_packages_need_and_nothing_else(lock: str) -> None:
    entries = [locked for locked in read_lock(lock) if locked.is_wanted_here]
    needed = closure(wanted(lock))
    assert {locked.name for locked in entries} == needed, "run `make lock`"
    assert {name: version(name) for name in needed} == {
        locked.name: locked.version for locked in entries
    }, "run `make setup`"


def closure(requirements: Iterable[Requirement]) -> set[str]:
    """Return the names of all that is needed here, by the metadata of what is installed."""
    found: set[tuple[str, str]] = set()
    waiting = [(requirement, "") for requirement in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted_extra in {"", *requirement.extras}:
            if (name, wanted_extra) not in found:
                found.add((name, wanted_extra))
                waiting += [(Requirement(text), wanted_extra) for text in requires(name) or ()]
    return {name for name, _ in found}


@pytest.mark.parametrize("lock", NAMES)
def test_every_package_has_one_version_with_hashes_and_no_address(lock: str) -> None:
    entries = read_lock(lock)
    assert len(by_name(lock)) == len(entries) > 0
    for locked in entries:
        assert locked.version
        assert locked.hashes
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", found) for found in locked.hashes)
    assert "://" not in (FOLDER / f"{lock}.txt").read_text(encoding="utf-8")


def test_the_image_gets_the_versions_that_the_tests_passed_with() -> None:
    tested = by_name("dev")
    for locked in read_lock("runtime"):
        assert tested[locked.name] == locked


def test_make_installs_only_what_is_locked() -> None:
    """Each `pip install` checks hashes, or builds from the sources here without the network."""
    dry = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup", "types", "sbom", "docs"],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=True,
    )
    installs = [line for line in dry.stdout.splitlines() if " install " in line]
    assert len(installs) >= 5
    for line in installs:
        hashed = "--require-hashes" in line and "--only-binary :all:" in line
        here = all(option in line for option in ("--no-deps", "--no-build-isolation", "--no-index"))
        assert hashed != here, line


def test_pip_refuses_a_file_whose_hash_is_not_in_the_lock(tmp_path: Path) -> None:
    lock = (FOLDER / "build.txt").read_text(encoding="utf-8")
    (tmp_path / "lock.txt").write_text(re.sub("[0-9a-f]{64}", 64 * "0", lock), encoding="utf-8")
    venv.create(tmp_path / "venv")
    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "venv")]
    options = ["--require-hashes", "--only-binary", ":all:", "--requirement"]
    run = subprocess.run(
        [*pip, "install", *options, tmp_path / "lock.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "DO NOT MATCH THE HASHES" in run.stderr
