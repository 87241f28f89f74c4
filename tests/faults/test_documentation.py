"""docs/reliability.md describes every fault, every check and every mutant."""

from pathlib import Path

import pytest

from faults.catalog import shared
from faults.checker import CHECKS
from faults.mutants import MUTANTS
from faults.small_faults import PER_REPLICA

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def cells() -> set[str]:
    """Return the first cells of its tables; a cell may have several names, with commas."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    return {*first, *(name for cell in first for name in cell.split(", "))}


@pytest.mark.parametrize(
    "name",
    [
        *PER_REPLICA,
        *(fault.name for fault in shared()),
        *CHECKS,
        *(mutant.name for mutant in MUTANTS),
    ],
)
def test_the_page_has_a_row(name: str) -> None:
    assert name in cells()
