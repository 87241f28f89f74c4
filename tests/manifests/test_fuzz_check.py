"""Examples with damaged bytes get a report that can be displayed in every format."""

import io
import json
import unicodedata
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.damage import is_inside, lines_of, mutations

from tenantcron.cli.formats import github, sarif, text
from tenantcron.cli.terminal import Palette
from tenantcron.manifests.check import TenantHints, check_manifest
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.document import Syntax
from tenantcron.manifests.policy import Policy, load_policy
from tenantcron.service.responses import diagnostics as data

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(
    path
    for folder in ("manifests", "mistakes")
    for path in (EXAMPLES / folder).rglob("*")
    if path.suffix in {".yaml", ".json"}
)
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@cache
def policy_of(folder: Path) -> Policy:
    """Read the policy next to an example."""
    return load_policy(next(parent / "tenantcron.toml" for parent in (folder, folder.parent)
                            if (parent / "tenantcron.toml").exists()))  # fmt: skip


def shown(diagnostics: list[Diagnostic]) -> list[str]:
    """Return the lines of all formats."""
    return [
        *text.render(diagnostics, Palette(io.StringIO()), 100),
        *map(github.annotation, diagnostics),
        json.dumps(sarif.sarif_log([diagnostics]), ensure_ascii=False, allow_nan=False),
        *(json.dumps(data.as_json(each), ensure_ascii=False) for each in diagnostics),
    ]


def is_showable(line: str) -> bool:
    """Whether a line has no control characters, no line breaks, and no halves of characters."""
    return not any(unicodedata.category(character) in {"Cc", "Cs"} for character in line)


@st.composite
def mutated_examples(draw: st.DrawFn) -> tuple[Path, bytes]:
    """Pick an example and damage it."""
    path = draw(st.sampled_from(FILES))
    return path, draw(mutations(path.read_bytes()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the damaged files, from which reports read the source lines."""
    return tmp_path_factory.mktemp("damaged")


def check_report(path: Path, content: bytes, damaged: Path) -> None:
    """Check a damaged example and its report in every format."""
    damaged.write_bytes(content)
    syntax: Syntax = "json" if path.suffix == ".json" else "yaml"
    hints = TenantHints(file_stem=path.stem)
    checked = check_manifest(content, syntax, policy_of(path.parent), hints, NOW)
    lines = lines_of(content)
    for problem in checked.problems:
        assert is_inside(problem.span, lines), problem
    diagnostics = [Diagnostic(str(damaged), problem) for problem in checked.problems]
    assert [line for line in shown(diagnostics) if not is_showable(line)] == []


@given(example=mutated_examples())
@settings(
    max_examples=250,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_report_of_a_damaged_example_can_be_displayed(
    example: tuple[Path, bytes], folder: Path
) -> None:
    path, content = example
    check_report(path, content, folder / f"damaged{path.suffix}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_report_of_an_example_can_be_displayed(path: Path, folder: Path) -> None:
    check_report(path, path.read_bytes(), folder / f"whole{path.suffix}")
