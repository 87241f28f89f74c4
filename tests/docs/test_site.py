"""The documentation site is complete, its links work, and it needs no other site."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from support.site import LABEL, ROOT, built_site, site_python

from docs.make_commands import actions
from docs.make_site import DOCS, OUTSIDE, linked, sections, unlisted
from tenantcron.api.app import described_app
from tenantcron.cli.main import COMMANDS, command_parser

_LOADED = re.compile(r"<(?:script|img|source|iframe)[^>]*?\ssrc=\"([^\"]+)\"")
_STYLED = re.compile(r"<link[^>]*?\shref=\"([^\"]+)\"")
_HREF = re.compile(r"<a [^>]*?href=\"([^\"]+)\"")
_ID = re.compile(r"\sid=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def site(run_folder: Path) -> Path:
    """The root of the site, with the folder of one version."""
    return built_site(run_folder)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    """The HTML of all pages, by their paths."""
    folder = site / LABEL
    return {
        page.relative_to(folder).as_posix(): page.read_text(encoding="utf-8")
        for page in folder.rglob("*.html")
    }


def test_every_page_is_in_the_site(pages: dict[str, str]) -> None:
    markdown = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    expected = {name.replace(".md", ".html") for name in (*markdown, *OUTSIDE.values())}
    assert expected <= pages.keys()


def test_the_index_lists_every_page_once() -> None:
    assert unlisted() == [], "list these pages in a section of docs/index.md"
    listed = [page for entries in sections().values() for page in entries]
    assert len(listed) == len(set(listed))
    assert set(OUTSIDE.values()) <= set(listed)


def test_the_navigation_separates_the_kinds_of_pages() -> None:
    kinds = ["Tutorials", "How-to guides", "Reference", "Explanation", "Project"]
    assert list(sections()) == kinds


def test_every_command_and_action_has_its_options_in_the_site(pages: dict[str, str]) -> None:
    for name in COMMANDS:
        page = pages[f"commands/{name}.html"]
        for action in (name, *(f"{name}-{action}" for action in actions(command_parser(name)))):
            assert f'id="{"tenantcron-" if action == name else ""}{action}"' in page


def test_every_operation_and_schema_of_the_api_is_in_the_site(pages: dict[str, str]) -> None:
    described = described_app().openapi()
    groups = {group for group in pages if group.startswith("api/")}
    ids = {found for group in groups for found in _ID.findall(pages[group])}
    operations = [
        operation["operationId"].replace("_", "-")
        for methods in described["paths"].values()
        for operation in methods.values()
    ]
    assert {*operations, *map(str.lower, described["components"]["schemas"])} <= ids


def test_every_link_of_the_site_has_a_target(pages: dict[str, str]) -> None:
    ids = {path: set(_ID.findall(text)) for path, text in pages.items()}
    broken = [
        (path, link)
        for path, text in pages.items()
        for link in set(_HREF.findall(text))
        if not _has_target(path, link, ids)
    ]
    assert broken == []


def _has_target(path: str, link: str, ids: dict[str, set[str]]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or link in {"#", ""}:
        return True
    target = path
    if parts.path:
        folder = Path("/", path).parent
        target = (folder / unquote(parts.path)).resolve().relative_to("/").as_posix()
    return target in ids and (not parts.fragment or unquote(parts.fragment) in ids[target])


def test_the_site_loads_nothing_from_other_sites(site: Path, pages: dict[str, str]) -> None:
    found = {
        source
        for text in pages.values()
        for source in (*_LOADED.findall(text), *_STYLED.findall(text))
        if urlsplit(source).netloc
    }
    assert found == set()
    styles = [sheet.read_text(encoding="utf-8") for sheet in site.rglob("*.css")]
    assert styles
    assert not any(re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", style) for style in styles)


def test_a_link_to_a_source_file_leads_to_the_repository_or_is_only_text() -> None:
    page = DOCS / "scheduler.md"
    text = "See [`fire`](../scheduler/steps/fire.py), [tests](../tests) and [this](api.md#roles)."
    assert linked(text, page, None) == "See `fire`, tests and [this](api.md#roles)."
    assert linked(text, page, "https://git.example") == (
        "See [`fire`](https://git.example/blob/main/scheduler/steps/fire.py),"
        " [tests](https://git.example/tree/main/tests) and [this](api.md#roles)."
    )


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text("# Home\n\n[nowhere](missing.md)\n", encoding="utf-8")
    options = ["-W", "-n", "-q", "-b", "dummy", "-c", str(ROOT / "docs" / "site")]
    command = [str(site_python()), "-m", "sphinx", *options, str(source), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "missing.md" in done.stderr
