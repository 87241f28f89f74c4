"""The pages of the documentation and their parts."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "bench" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# This page consists of mistakes, some of which cannot be parsed; it has separate tests.
MISTAKES = ROOT / "docs" / "diagnostics.md"

BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*?) -->\n+)?^```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TABLE = re.compile(
    r"<!-- (?P<kind>fields|checked|listed): (?P<what>[^\n]*?) -->\n+(?P<table>(?:\|.*\n)+)"
)
# A link or an image; the text of a link may contain code with brackets.
LINK = re.compile(r"\[(?:`[^`]*`|[^\]])*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)

Json = dict[str, Any]


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


READERS: dict[str, Callable[[str], object]] = {
    "yaml": YAML(typ="safe").load,
    "toml": tomllib.loads,
    "json": json.loads,
}


def data_blocks(page: Path) -> list[tuple[str, str]]:
    """Return the data blocks of a page, with their language."""
    if page == MISTAKES:
        return []
    blocks = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [(match["language"], match["body"]) for match in blocks if match["language"] in READERS]


def yaml_blocks(page: Path) -> Iterator[Json]:
    for language, body in data_blocks(page):
        if language == "yaml":
            yield YAML(typ="safe").load(body)


def pipeline_commands(page: Path) -> Iterator[str]:
    """Yield our commands in the pipelines of a page, including those of our action."""
    for data in yaml_blocks(page):
        for text in strings(data):
            yield from re.findall(r"^tenantcron .*$", text, re.MULTILINE)


def _command_of_action(inputs: dict[str, str]) -> str:
    """Return the command that our action runs last, with the inputs that pages use."""
    commands = {"validate": "validate", "plan": "plan", "apply": "apply-manifest"}
    command = commands[inputs.get("mode", "validate")]
    created = " --create-tenants" if inputs.get("create-tenants") == "true" else ""
    return f"tenantcron {command} {inputs.get('paths', 'manifests/')}{created}"


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and str(value.get("uses")).startswith("platform/tenantcron@"):
        yield _command_of_action(value.get("with", {}))
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def each_page_with(part: Callable[[Path], object]) -> pytest.MarkDecorator:
    """Parametrise with the pages that have such a part, so that no test is empty."""
    return pytest.mark.parametrize("page", [page for page in PAGES if part(page)], ids=page_id)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page, repeated ones with a number."""
    titles = [match["title"] for match in HEADING.finditer(prose(page))]
    found: Counter[str] = Counter()
    shown = set()
    for title in titles:
        anchor = re.sub(r"[^\w\s-]", "", title.lower()).strip().replace(" ", "-")
        shown.add(f"{anchor}-{found[anchor]}" if found[anchor] else anchor)
        found[anchor] += 1
    return shown


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def marked(page: str, mark: str) -> str:
    """Return the block of a page after a mark."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (body,) = (match["body"] for match in BLOCK.finditer(text) if match["mark"] == mark)
    return body
