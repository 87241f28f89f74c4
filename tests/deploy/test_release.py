"""Releases: the tag, the version and the changelog agree, and builds are reproducible."""

import io
import tarfile
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = """\
# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- Calendars.

## [0.1.0] - 2026-11-18

- First release.
"""


def release_script() -> Any:
    spec = spec_from_file_location("release_script", ROOT / "deploy" / "release.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RELEASE = release_script()


def project(folder: Path, version: str = "0.2.0", changelog: str = CHANGELOG) -> Path:
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("tag", "notes"),
    [("v0.2.0", "### Added\n\n- Calendars.\n"), ("v0.1.0", "- First release.\n")],
)
def test_the_notes_are_the_section_of_the_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tag: str, notes: str
) -> None:
    assert RELEASE.main(["notes", tag], project(tmp_path, tag.removeprefix("v"))) == 0
    assert capsys.readouterr().out == notes


@dataclass(frozen=True)
class Refused:
    """A tag with the files of its commit, and what is wrong."""

    problem: str
    tag: str = "v0.2.0"
    version: str = "0.2.0"
    changelog: str = CHANGELOG


REFUSED = (
    Refused("the tag '0.2.0' is not a release such as v0.2.0", tag="0.2.0"),
    Refused("the tag 'v0.2' is not a release such as v0.2.0", tag="v0.2", version="0.2"),
    Refused("pyproject.toml has version 0.1.9: set it to 0.2.0", version="0.1.9"),
    Refused("CHANGELOG.md has no section", tag="v0.3.0", version="0.3.0"),
    Refused("CHANGELOG.md has no date for 0.2.0", changelog=CHANGELOG.replace(" - 2026-12-01", "")),
    Refused(
        "the section of 0.2.0 in CHANGELOG.md is empty",
        changelog=CHANGELOG.replace("### Added\n\n- Calendars.\n", ""),
    ),
)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.problem)
def test_a_tag_that_does_not_agree_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: Refused
) -> None:
    files = project(tmp_path, case.version, case.changelog)
    assert RELEASE.main(["notes", case.tag], files) == 1
    shown = capsys.readouterr()
    assert case.problem in shown.err
    assert shown.out == ""


def test_all_problems_are_reported_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert RELEASE.main(["check", "v9.0.0"], project(tmp_path)) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


def archive(folder: Path, modified: int) -> Path:
    """Write an archive of two files that were modified at a time."""
    file = folder / "tenantcron-0.2.0.tar.gz"
    with tarfile.open(file, "w:gz") as packed:
        for name in ("b.txt", "a.txt") if modified else ("a.txt", "b.txt"):
            member = tarfile.TarInfo(f"tenantcron-0.2.0/{name}")
            member.size, member.mtime, member.uid = 2, modified, modified
            packed.addfile(member, io.BytesIO(name[:1].encode() + b"\n"))
    return file


def test_archives_of_one_commit_are_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    contents = set()
    for modified in (0, 1_700_000_000):
        file = archive(tmp_path, modified)
        assert RELEASE.main(["sdist", str(file)], tmp_path) == 0
        contents.add(file.read_bytes())
    assert len(contents) == 1
    with tarfile.open(file) as normalised:
        assert normalised.getnames() == ["tenantcron-0.2.0/a.txt", "tenantcron-0.2.0/b.txt"]
        member = normalised.extractfile("tenantcron-0.2.0/a.txt")
        assert member
        assert member.read() == b"a\n"


@pytest.mark.parametrize(("version", "is_valid"), [("0.2.0", True), ("zero", False)])
def test_the_metadata_of_a_wheel_is_checked(tmp_path: Path, version: str, is_valid: bool) -> None:
    wheel = tmp_path / "tenantcron-0.2.0-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.4\nName: tenantcron\nVersion: {version}\n"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("tenantcron-0.2.0.dist-info/METADATA", metadata)
    if is_valid:
        assert RELEASE.main(["wheel", str(wheel)], tmp_path) == 0
        return
    with pytest.raises(ExceptionGroup, match="metadata"):
        RELEASE.main(["wheel", str(wheel)], tmp_path)


def test_wrong_usage_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert RELEASE.main(["ship"], ROOT) == 2
    assert capsys.readouterr().err.startswith("usage: release.py {check,notes} TAG")
