"""An asynchronous failover under a running scheduler: nothing is lost, and repeats are reported."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet import Shell, manifest
from support.patience import PATIENCE
from support.processes import Fleet, executions, query, until
from support.standby import Pair, replicated

HANDLERS = '''
"""Handlers that leave a line for each call."""
from pathlib import Path
from tenantcron.scheduler.replica import polling_loops
from tenantcron.targets.python.registry import saga

polling_loops.LONGEST_SLEEP = 0.2

async def note(execution):
    with Path("called").open("a") as file:
        print(execution.id, execution.attempt, file=file)

for name in ("kept", "repeated"):
    saga(name)(note)
'''


@pytest.fixture
def pair(run_folder: Path) -> Iterator[Pair]:
    with replicated(run_folder) as made:
        yield made


@pytest.fixture
def fleet(tmp_path: Path, pair: Pair) -> Iterator[Fleet]:
    """A tenant whose schedules the test makes due, and schedulers that know both hosts."""
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    sagas = dict.fromkeys(["kept", "repeated"], 'cron: "0 0 1 1 *", start_within: 1h')
    (tmp_path / "acme.yaml").write_text(manifest("acme", sagas), encoding="utf-8")
    applied = Shell(tmp_path, pair.primary.url)("apply-manifest", "acme.yaml", "--create-tenants")
    assert applied.code == 0
    fleet = Fleet(Shell(tmp_path, pair.url), pair.primary.url, "--handlers", "work")
    try:
        yield fleet
    finally:
        fleet.close()


def due_in(url: str, saga: str, seconds: int) -> None:
    """Make a schedule due soon."""
    query(
        url,
        "UPDATE tenantcron.schedule_cursor SET next_run_at = date_trunc('milliseconds', now())"
        " + make_interval(secs => %s) WHERE schedule_name = %s",
        seconds,
        saga,
    )


def states(url: str) -> dict[str, str]:
    return {row["schedule_name"]: row["state"] for row in executions(url)}


def calls(folder: Path) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in (folder / "called").read_text().splitlines()]


def test_results_lost_with_the_primary_are_reported(fleet: Fleet, pair: Pair) -> None:
    process, old, new = fleet.start(), pair.primary.url, pair.standby.url
    until(lambda: fleet.is_up(process))
    until(lambda: len(query(old, "SELECT 1 FROM tenantcron.schedule_cursor")) == 2)
    due_in(old, "kept", 0)
    until(lambda: states(old) == {"kept": "SUCCEEDED"})
    due_in(old, "repeated", 3)
    pair.wait_for_standby()
    pair.standby.follow_no_longer()
    until(lambda: states(old) == {"kept": "SUCCEEDED", "repeated": "SUCCEEDED"})
    (lost,) = (row for row in executions(old) if row["schedule_name"] == "repeated")

    pair.fail_over()

    # The occurrence that was not replicated to the new primary is fired and run again.
    until(lambda: states(new) == {"kept": "SUCCEEDED", "repeated": "SUCCEEDED"})
    until(lambda: bool(query(new, "SELECT 1 FROM tenantcron.failover_loss")))
    (row,) = query(new, "SELECT * FROM tenantcron.failover_loss")
    assert (row["execution_id"], row["attempt"], row["lost"]) == (lost["id"], 1, "claim")
    assert row["timeline"] == 2
    assert calls(fleet.shell.folder).count((str(lost["id"]), "1")) == 2

    shell = Shell(fleet.shell.folder, new)
    health = json.loads(shell("health", "--format", "json").out)
    (finding,) = [
        finding for finding in health["findings"] if finding["code"] == "failover-results-lost"
    ]
    assert finding["subjects"] == [str(lost["id"])]
    audit = json.loads(shell("audit", "--format", "json").out)
    codes = [finding["code"] for finding in audit["findings"]]
    assert "lost" not in codes
    finding = audit["findings"][codes.index("may-repeat")]
    assert (codes.count("may-repeat"), finding["schedule"]) == (1, "repeated")
    assert str(lost["id"]) in finding["message"]

    process.terminate()
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
