"""The page on reliability tells of every fault, every check and every broken build."""

from pathlib import Path

import pytest

from faults.breaking import OWN
from faults.catalog import shared
from faults.checker import CHECKS
from faults.mutants import MUTANTS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def cells() -> set[str]:
    """Return what the first cells of its tables name; several are apart by commas."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    return {*first, *(name for cell in first for name in cell.split(", "))}


@pytest.mark.parametrize(
    "name",
    [*OWN, *(fault.name for fault in shared()), *CHECKS, *(one.name for one in MUTANTS)],
)
def test_it_has_a_row(name: str) -> None:
    assert name in cells()
