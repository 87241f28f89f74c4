"""The broken builds can still be made from the tree as it is."""

from pathlib import Path

import pytest

from faults.catalog import names
from faults.mutants import MUTANTS, Change, Mutant, OutdatedMutantError, build


def test_there_are_fourteen_with_names_of_their_own() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) == 14


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_what_a_mutant_replaces_is_there(mutant: Mutant, tmp_path: Path) -> None:
    tree = build(mutant, tmp_path)
    for change in mutant.changes:
        file = tree / "tenantcron" / change.file
        text = file.read_text(encoding="utf-8")
        assert change.new in text
        if file.suffix == ".py":
            compile(text, str(file), "exec")
    assert set(mutant.faults) <= set(names())


def test_a_text_that_is_not_there_any_more_is_an_error(tmp_path: Path) -> None:
    gone = Mutant("gone", "nothing", (Change("store/firing.py", "no such text", ""),), ())
    with pytest.raises(OutdatedMutantError, match=r"store/firing\.py"):
        build(gone, tmp_path)
