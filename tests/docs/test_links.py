"""Links between pages, and from the code to pages, have targets; other sites are not visited."""

import re
import subprocess
from pathlib import Path

import pytest
from support.pages import LINK, ROOT, anchors, each_page_with, prose

# A page in a comment, a docstring, an error or a file of settings: `docs/cron.md#daylight-saving`.
_PAGE = re.compile(r"(?<![\w/.-])(?P<path>docs/[\w/-]+\.md)(?:#(?P<anchor>[\w-]+))?")
# Decisions are cited by their number: `docs/decisions/0002`.
_DECISION = re.compile(r"docs/decisions/(?P<number>\d{4})(?![\w-])")


def links(page: Path) -> list[str]:
    """Return the links of a page that stay inside the repository."""
    targets = (match["target"] for match in LINK.finditer(prose(page)))
    return [target for target in targets if "://" not in target]


@each_page_with(links)
def test_every_link_inside_the_repository_has_a_target(page: Path) -> None:
    assert [target for target in links(page) if not has_target(page, target)] == []


def has_target(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    return file.exists() and (not anchor or anchor in anchors(file))


def test_every_page_that_the_code_refers_to_exists() -> None:
    broken = [
        f"{file}: {match[0]}"
        for file in code_files()
        for match in _PAGE.finditer((ROOT / file).read_text(encoding="utf-8"))
        if not has_target(ROOT / "file", match[0])
    ]
    assert broken == []


def test_every_decision_that_the_code_refers_to_exists() -> None:
    numbers = {decision.name[:4] for decision in (ROOT / "docs" / "decisions").glob("*.md")}
    broken = [
        f"{file}: {match[0]}"
        for file in code_files()
        for match in _DECISION.finditer((ROOT / file).read_text(encoding="utf-8"))
        if match["number"] not in numbers
    ]
    assert broken == []


def code_files() -> list[str]:
    """Return the text files of the repository that refer to the documentation, except pages."""
    command = [
        "git",
        "grep",
        "--untracked",
        "-Il",
        "docs/",
        "--",
        ":!*.md",
        ":!locks",
        ":!tests/docs",
    ]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = listed.splitlines()
    assert len(files) > 20
    return files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\n\n## Two words, *three*\n", {"one", "two-words-three"}),
        ("# A\n\n## Fix\n\n## Fix\n", {"a", "fix", "fix-1"}),
        ("# A\n\n```sh\n# a comment\n```\n", {"a"}),
    ],
)
def test_anchors_are_those_of_github(text: str, expected: set[str], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert anchors(page) == expected
