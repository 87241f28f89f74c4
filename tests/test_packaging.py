"""The wheel has every folder and the schemas, and its command works in a clean environment."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from email import message_from_bytes
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from support.locks import pins

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = {"tests", "bench", "faults", "examples", "docs", "build", "dist"}
ROOT_PACKAGE = "tenantcron"


@pytest.fixture(scope="module")
def project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def folders_with_code() -> list[str]:
    """Return the folders on disk that are packages, as paths from the root."""
    found = (file.parent.relative_to(ROOT) for file in ROOT.rglob("__init__.py"))
    return sorted(
        folder.as_posix()
        for folder in found
        if folder.parts[0] not in NOT_SHIPPED and not folder.parts[0].startswith(".")
    )


def package_of(folder: str) -> str:
    return ROOT_PACKAGE if folder == "package" else f"{ROOT_PACKAGE}.{folder.replace('/', '.')}"


def test_every_folder_with_code_is_listed_as_a_package(project: Any) -> None:
    listed = project["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(map(package_of, folders_with_code()))


def test_every_package_is_mapped_to_its_folder(project: Any) -> None:
    mapped = project["tool"]["setuptools"]["package-dir"]
    assert mapped == {package_of(folder): folder for folder in folders_with_code()}


def test_the_bare_names_of_all_root_folders_are_banned_imports(project: Any) -> None:
    banned = project["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    roots = {folder.partition("/")[0] for folder in folders_with_code()} - {"package"}
    assert banned.keys() == roots


def sources() -> list[str]:
    """Return the files of a commit of everything."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def copy_sources(to: Path) -> None:
    for name in sources():
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy, without leftovers of other builds."""
    copy_sources(folder)
    run_quietly(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"], cwd=folder
    )
    (built,) = (folder / "dist").glob("*.whl")
    return built


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel into an empty environment; return the command."""
    venv.create(folder)
    # The pip of this environment installs into that one, which then needs no pip.
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "--disable-pip-version-check"]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins("runtime")), encoding="utf-8")
    install = ["install", "--no-compile", "--only-binary", ":all:"]
    run_quietly([*pip, *install, "--constraint", constraints, wheel], cwd=folder)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "tenantcron"


def run_quietly(command: list[str | Path], cwd: Path) -> None:
    run = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def files_to_ship() -> set[str]:
    """Return all files of the folders with code, by their names in the wheel."""
    roots = {folder.partition("/")[0] for folder in folders_with_code()}
    shipped = (name for name in sources() if name.partition("/")[0] in roots)
    return {f"{ROOT_PACKAGE}/{name.removeprefix('package/')}" for name in shipped}


def test_the_wheel_contains_the_package_and_works_in_a_clean_environment(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    wheel = build_wheel(tmp_path / "sources")
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = message_from_bytes(archive.read("tenantcron-0.1.0.dist-info/METADATA"))
        license_text = archive.read("tenantcron-0.1.0.dist-info/licenses/LICENSE").decode()
    assert metadata["License-Expression"] == "Apache-2.0 AND 0BSD"
    assert license_text == (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert held == files_to_ship()
    assert "tenantcron/manifests/manifest.schema.json" in held
    assert "tenantcron/web/static/htmx.min.js" in held
    assert "tenantcron/web/static/htmx.LICENSE.txt" in held

    command = install(wheel, tmp_path / "clean")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run(
            [command, *arguments],
            cwd=elsewhere,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    good = run("validate", "--strict", ROOT / "examples" / "manifests")
    assert (good.returncode, good.stderr) == (0, "")
    assert run("validate", ROOT / "examples" / "mistakes").returncode == 1
    following = run("next", "*/15 * * * *", "--timezone", "Europe/London", "--format", "json")
    assert len(json.loads(following.stdout)["fires"]) == 5
    assert json.loads(run("schema").stdout)["title"] == "tenantcron manifest"
    assert run("explain", "TC301").stdout.startswith("TC301 interval-below-floor")
    assert run("--version").stdout == "tenantcron 0.1.0\n"


def test_only_images_of_the_documentation_are_binary() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = [Path(name.decode()) for name in tracked.stdout.split(b"\0") if name]
    files = [name for name in names if (ROOT / name).is_file()]
    binary = [name for name in files if b"\0" in (ROOT / name).read_bytes()]
    assert [name for name in binary if name.parts[:2] != ("docs", "images")] == []


def test_every_type_ignore_has_a_code_and_a_reason() -> None:
    lines = [
        (name, line)
        for name in sources()
        if name.endswith(".py") and name != Path(__file__).relative_to(ROOT).as_posix()
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if "type: ignore" in line
    ]
    assert lines
    bare = [line for line in lines if not re.search(r"# type: ignore\[[\w, -]+\] # \S", line[1])]
    assert bare == []
