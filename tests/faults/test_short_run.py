"""The short form of `make faults`: all faults at once on a server of its own, with a fixed seed."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FEWEST_KILLS, FEWEST_OCCURRENCES = 6, 500
SHORT = (
    *("--seed", "7", "--seeds", "1", "--for", "12", "--kills", str(FEWEST_KILLS)),
    *("--steady", "32", "--mortals", "3"),
)


def test_with_all_faults_at_once_nothing_is_lost_doubled_or_over_the_limit() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "faults", *SHORT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    # | seed | seconds | kills | occurrences | lost | doubled | over the limit | others | …
    row = re.search(r"^\| 7 \| (.*) \|$", run.stdout, re.MULTILINE)
    assert row is not None
    _, kills, occurrences, *found, _, _ = row[1].replace(",", "").split(" | ")
    assert found == ["0", "0", "0", "0"]
    # A run in which nothing happened shows nothing.
    assert int(kills) >= FEWEST_KILLS
    assert int(occurrences) >= FEWEST_OCCURRENCES
