"""Short runs of `make faults` with fixed seeds: all small faults, and outages."""

import re
import subprocess
import sys
from pathlib import Path

from support.brokers import require_celery, require_rabbitmq

from faults.catalog import names
from faults.disk import can_mount
from faults.outages import LARGE, DiskFull
from faults.postgres import DEBIAN, Kind

ROOT = Path(__file__).parents[2]
FEWEST_KILLS, FEWEST_OCCURRENCES = 6, 500
SMALL = (
    *("--seed", "7", "--seeds", "1", "--for", "12", "--kills", str(FEWEST_KILLS)),
    *("--steady", "32", "--victims", "3"),
)
# The stock server where it is installed, as in CI.
DATABASE = Kind.DEBIAN if DEBIAN.exists() else Kind.EMBEDDED
OUTAGES = (
    *("--seed", "7", "--seeds", "1", "--for", "20", "--steady", "16", "--victims", "2"),
    *("--database", DATABASE.value, "--only-faults", ",".join(["kill", *sorted(LARGE)])),
)


def run(*options: str) -> str:
    """Run a seed that must have no findings; return its output."""
    command = [sys.executable, "-m", "faults", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cells(printed: str, first: str) -> list[str]:
    """Return the other cells of the row that begins with a cell."""
    row = re.search(rf"^\| {first} \| (.*) \|$", printed, re.MULTILINE)
    assert row is not None, printed
    return row[1].replace(",", "").split(" | ")


def test_with_all_small_faults_nothing_is_lost_duplicated_or_over_the_limit() -> None:
    small = [name for name in names() if name not in LARGE]
    printed = run(*SMALL, "--only-faults", ",".join(small))
    # | seed | seconds | kills | occurrences | lost | duplicated | over the limit | others | …
    _, kills, occurrences, *found, _, _ = cells(printed, "7")
    assert found == ["0", "0", "0", "0"]
    # A run without kills and occurrences would show nothing.
    assert int(kills) >= FEWEST_KILLS
    assert int(occurrences) >= FEWEST_OCCURRENCES
    for name in ("task submitted", "task submitted again", "task cancelled", "client killed"):
        assert int(cells(printed, name)[0]) >= 1


def test_after_failovers_and_other_outages_nothing_is_lost_or_forgotten() -> None:
    printed = run(*OUTAGES)
    _, _, _, *found, _, _ = cells(printed, "7")
    assert found == ["0", "0", "0", "0"]
    for name in LARGE if can_mount() else LARGE - {DiskFull.name}:
        assert int(cells(printed, name)[0]) >= 1
    assert int(cells(printed, "forgotten")[0]) >= FEWEST_OCCURRENCES


REMOTE = ("--seed", "7", "--seeds", "1", "--for", "10")


def test_callbacks_of_killed_workers_and_apis_lose_and_repeat_nothing_unexplained() -> None:
    printed = run(*REMOTE, "--remote", "callback")
    _, kills, occurrences, *found, _, _ = cells(printed, "7")
    assert found == ["0", "0", "0", "0"]
    assert int(kills) >= 3
    assert int(occurrences) >= 20
    assert int(cells(printed, "completion sent twice")[0]) >= 1


def test_work_at_celery_survives_the_death_of_workers_and_of_the_broker() -> None:
    require_celery()
    require_rabbitmq()
    printed = run(*REMOTE[:-1], "22", "--remote", "celery")
    _, _, occurrences, *found, _, _ = cells(printed, "7")
    assert found == ["0", "0", "0", "0"]
    assert int(occurrences) >= 20
    assert int(cells(printed, "broker killed")[0]) >= 1
    assert int(cells(printed, "worker killed")[0]) >= 1
