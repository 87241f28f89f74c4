"""Build the documentation site: `make docs`, or `make docs VERSION=0.1` for a release.

The pages stay plain Markdown that GitHub renders as well. Nothing in them is written for Sphinx:

1. `stage` copies the pages into a folder for Sphinx. It adds the generated ones (a page for each
   command and for each group of the API), rewrites links, and adds the navigation.
2. The navigation is what the lists of `docs/index.md` link to: a section for each heading, in the
   order of the page. A page `x.md` contains the pages of the folder `x/`.
3. A link to a file that is not a page, such as a source file, leads to the repository, if its
   address is known (`REPOSITORY`). Otherwise only its text is kept.
4. Sphinx runs in a separate environment, which `locks/docs.txt` describes. A warning is an error.
5. Each version has its own folder, and `docs/make_versions.py` lists them.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from docs import make_api, make_commands
from docs.make_versions import write_versions

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX = "index.md"
LATEST = "main"
# Pages outside of docs/, and their names in the site.
OUTSIDE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "bench/README.md": "benchmarks.md",
}
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# A link or an image: `[text](target)`; the text may contain code, and an image.
_LINK = re.compile(
    r"(?P<open>!?)\[(?P<text>(?:`[^`]*`|!\[[^\]]*\]\([^)]*\)|[^\]])*)\]\((?P<to>[^)\s]+)\)"
)
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"^- \[[^\]]*\]\((?P<to>[^)#\s]+\.md)\)", re.MULTILINE)
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


def stage(source: Path, repository: str | None) -> None:
    """Write all pages for Sphinx into a folder; unchanged files keep their times."""
    pages = dict(_pages())
    for name, file in pages.items():
        text = linked(file.read_text(encoding="utf-8"), file, repository)
        _write(source / name, text + "".join(_navigation(name, pages)))
    generated = {
        **{f"commands/{name}.md": text for name, text in make_commands.pages().items()},
        **{f"api/{name}.md": text for name, text in make_api.pages().items()},
    }
    for name, text in generated.items():
        _write(source / name, text)
    for folder in ("images", "plots"):
        shutil.copytree(DOCS / folder, source / folder, dirs_exist_ok=True)
    kept = {source / name for name in (*pages, *generated)}
    for leftover in set(source.rglob("*.md")) - kept:
        leftover.unlink()


def _pages() -> Iterator[tuple[str, Path]]:
    """Yield every page that is written by people: its name in the site, and its file."""
    for file in sorted(DOCS.rglob("*.md")):
        yield file.relative_to(DOCS).as_posix(), file
    for path, name in OUTSIDE.items():
        yield name, ROOT / path


def _write(file: Path, text: str) -> None:
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def linked(text: str, file: Path, repository: str | None) -> str:
    """Return a page whose links lead to pages of the site, or to the repository."""

    def replaced(match: re.Match[str]) -> str:
        target = match["to"]
        if "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, hash_mark, anchor = target.partition("#")
        found = (file.parent / path).resolve()
        place = _place(found)
        label = _LINK.sub(replaced, match["text"])
        if place is not None:
            here = PurePosixPath(_place(file) or "")
            relative = os.path.relpath(place, here.parent)
            return f"{match['open']}[{label}]({relative}{hash_mark}{anchor})"
        if repository is None:
            return label
        kind = "tree" if found.is_dir() else "blob"
        path = found.relative_to(ROOT).as_posix()
        return f"[{label}]({repository}/{kind}/{LATEST}/{path}{hash_mark}{anchor})"

    parts = _FENCE.split(text)
    # Every second part is a block of code.
    parts[::2] = [_LINK.sub(replaced, part) for part in parts[::2]]
    return "".join(parts)


def _place(file: Path) -> str | None:
    """Return where a file of the repository is in the site."""
    path = file.relative_to(ROOT).as_posix()
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path == "docs":
        return INDEX
    if not path.startswith("docs/"):
        return None
    name = path.removeprefix("docs/")
    if file.is_dir():
        return f"{name}.md" if file.with_suffix(".md").exists() else None
    return name if file.suffix in {".md", ".png", ".svg"} else None


def _navigation(name: str, pages: dict[str, Path]) -> Iterator[str]:
    """Yield the tables of contents of a page, which are shown in the sidebar."""
    if name == INDEX:
        for title, entries in {**sections(), "More": unlisted()}.items():
            yield _toctree(entries, f":caption: {title}\n")
        return
    stem = name.removesuffix(".md")
    if stem in {"commands", "api"}:
        yield _toctree([f"{stem}/*"], ":glob:\n")
    elif any(page.startswith(f"{stem}/") for page in pages):
        yield _toctree([page for page in pages if page.startswith(f"{stem}/")], "")


def sections() -> dict[str, list[str]]:
    """Return the sections of the index, each with the pages that it lists."""
    _, *parts = _SECTION.split((DOCS / INDEX).read_text(encoding="utf-8"))
    texts = zip(parts[::2], parts[1::2], strict=True)
    return {title: list(_entries(text)) for title, text in texts}


def unlisted() -> list[str]:
    """Return the pages that the index does not list; a test fails for them, and not the build."""
    listed = {INDEX, *(page for entries in sections().values() for page in entries)}
    return sorted(page.name for page in DOCS.glob("*.md") if page.name not in listed)


def _entries(text: str) -> Iterator[str]:
    for match in _ENTRY.finditer(text):
        yield _place((DOCS / match["to"]).resolve()) or match["to"]


def _toctree(entries: list[str], options: str) -> str:
    if not entries:
        return ""
    body = "\n".join(entries)
    return f"\n```{{toctree}}\n:hidden:\n:titlesonly:\n{options}\n{body}\n```\n"


def build(python: Path, site: Path, version: str, repository: str | None) -> None:
    """Build one version into its folder of the site."""
    work = site.parent / "site-work"
    stage(work / "source", repository)
    subprocess.run(  # noqa: S603 -- Sphinx, in its own environment
        [
            *(python, "-m", "sphinx", "--fail-on-warning", "--nitpicky", "--quiet"),
            "--write-all",  # the navigation of every page changes with any title
            *("--jobs", "auto", "--conf-dir", DOCS / "site"),
            *("--doctree-dir", work / "doctrees", "--define", f"version={version}"),
            *(work / "source", site / version),
        ],
        check=True,
    )
    write_versions(site)


def _label(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} cannot name a folder: use letters, digits, '.', '_' and '-'"
        )
    return text


def main() -> int:
    """Build the site by the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m docs.make_site", description=__doc__)
    parser.add_argument("site", type=Path, help="write the site into this folder")
    parser.add_argument("--python", type=Path, required=True, help="run Sphinx with this Python")
    parser.add_argument("--version", type=_label, default=LATEST, help="set the version label")
    parser.add_argument("--repository", help="link source files to this address")
    arguments = parser.parse_args()
    os.environ["COLUMNS"] = "80"  # the usage texts of commands depend on it
    try:
        build(arguments.python, arguments.site, arguments.version, arguments.repository or None)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
