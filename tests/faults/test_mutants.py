"""All mutants can be built from the current tree."""

from pathlib import Path

import pytest

from faults.catalog import names
from faults.mutant import Change, Mutant, OutdatedMutantError, build
from faults.mutants import MUTANTS


def test_there_are_twenty_with_unique_names() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) == 20


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_built(mutant: Mutant, tmp_path: Path) -> None:
    tree = build(mutant, tmp_path)
    for change in mutant.changes:
        file = tree / "tenantcron" / change.file
        text = file.read_text(encoding="utf-8")
        assert change.new in text
        if file.suffix == ".py":
            compile(text, str(file), "exec")
    assert set(mutant.faults) <= set(names())


def test_a_missing_text_is_an_error(tmp_path: Path) -> None:
    outdated = Mutant(
        "outdated", "nothing", (Change("store/steps/firing.py", "no such text", ""),), ()
    )
    with pytest.raises(OutdatedMutantError, match=r"store/steps/firing\.py"):
        build(outdated, tmp_path)
