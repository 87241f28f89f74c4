"""Check that a tag can be released, cut its notes from the changelog, and normalise the sdist.

    python deploy/release.py check v0.2.0    the tag, the version and the changelog agree
    python deploy/release.py notes v0.2.0    print the section of the changelog
    python deploy/release.py sdist FILE      write the archive again, the same for the same commit
    python deploy/release.py wheel FILE      check the metadata; needs the package `packaging`

Archives contain the time of each file. `sdist` replaces it with SOURCE_DATE_EPOCH, the time of the
commit. Wheels already have it.

Exit codes: 0 all agree, 1 they do not, 2 wrong usage.
"""

import gzip
import io
import os
import re
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

_SECTION = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
_RELEASE = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def main(arguments: list[str], root: Path) -> int:
    """Run a command for a tag."""
    match arguments:
        case [("check" | "notes") as command, tag]:
            problems = list(release_problems(tag, root))
            for problem in problems:
                print(f"error: {problem}", file=sys.stderr)
            if command == "notes" and not problems:
                print(notes(version_of(tag), changelog(root)), end="")
            return int(bool(problems))
        case ["sdist", file]:
            normalise_sdist(Path(file), int(os.environ["SOURCE_DATE_EPOCH"]))
            return 0
        case ["wheel", file]:
            check_metadata(Path(file))
            return 0
        case _:
            print("usage: release.py {check,notes} TAG, or {sdist,wheel} FILE", file=sys.stderr)
            return 2


def release_problems(tag: str, root: Path) -> Iterator[str]:
    """Yield what prevents the release of a tag."""
    version = version_of(tag)
    if not tag.startswith("v") or not _RELEASE.fullmatch(version):
        yield f"the tag {tag!r} is not a release such as v0.2.0"
        return
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if project["version"] != version:
        yield f"pyproject.toml has version {project['version']}: set it to {version}"
    sections = {match["name"]: match["date"] for match in _SECTION.finditer(changelog(root))}
    if version not in sections:
        yield f"CHANGELOG.md has no section: write `## [{version}] - YYYY-MM-DD` above its entries"
    elif not _DATE.fullmatch(sections[version] or ""):
        yield f"CHANGELOG.md has no date for {version}: write `## [{version}] - YYYY-MM-DD`"
    elif not notes(version, changelog(root)).strip():
        yield f"the section of {version} in CHANGELOG.md is empty: write what changed for users"


def notes(version: str, text: str) -> str:
    """Return the section of a version, without its heading."""
    heads = list(_SECTION.finditer(text))
    (number,) = [index for index, head in enumerate(heads) if head["name"] == version]
    end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
    return text[heads[number].end() : end].strip() + "\n"


def normalise_sdist(file: Path, epoch: int) -> None:
    """Sort the members of an archive and set their times and owners."""
    packed = io.BytesIO()
    with (
        tarfile.open(file) as old,
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            member.mtime, member.pax_headers = epoch, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member))
    file.write_bytes(packed.getvalue())


def check_metadata(wheel: Path) -> None:
    """Raise an error if an index would refuse the metadata of a wheel."""
    from packaging.metadata import Metadata  # noqa: PLC0415 -- the other commands do not need it

    with ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        Metadata.from_email(archive.read(name), validate=True)


def version_of(tag: str) -> str:
    """Return the version that a tag names."""
    return tag.removeprefix("v")


def changelog(root: Path) -> str:
    """Return the text of the changelog."""
    return (root / "CHANGELOG.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[1]))
