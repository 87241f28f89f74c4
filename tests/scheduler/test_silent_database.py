"""Scheduler processes whose database stops answering: no FIN, no RST, no response."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest
from support.fleet import Shell, manifest
from support.gate import Gate, gate
from support.patience import PATIENCE
from support.ports import free_port
from support.processes import Fleet, executions, make_due, until
from support.scraping import get, until_served

HANDLERS = '''
"""Handlers that end at once, or never."""
import asyncio
from pathlib import Path
from tenantcron.scheduler.replica import polling_loops
from tenantcron.targets.python.registry import saga

polling_loops.LONGEST_SLEEP = 0.05

@saga("quick")
async def quick(execution):
    pass

@saga("endless")
async def endless(execution):
    Path("started").touch()
    await asyncio.Event().wait()
'''
DRAIN = 1.0
# A busy machine takes a while to start and end processes.
SLOW_MACHINE = 10.0


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def silent(database_url: str) -> Iterator[Gate]:
    with gate(database_url) as between:
        yield between


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, silent: Gate, port: int) -> Iterator[Fleet]:
    """A tenant with two schedules that the test makes due, and schedulers behind the gate."""
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    sagas = dict.fromkeys(["quick", "endless"], 'cron: "0 0 1 1 *", start_within: 1h')
    (tmp_path / "acme.yaml").write_text(manifest("acme", sagas), encoding="utf-8")
    assert (
        Shell(tmp_path, database_url)("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    )
    fleet = Fleet(
        Shell(tmp_path, f"{silent.url}&connect_timeout=2"),
        database_url,
        *("--handlers", "work", "--metrics-port", str(port)),
        TENANTCRON_DATABASE_TIMEOUT="1s",
        TENANTCRON_DRAIN=f"{DRAIN:.0f}s",
    )
    try:
        yield fleet
    finally:
        silent.speak()
        fleet.close()


def not_ready(port: int) -> bool:
    return get(port, "/readyz")[0] == 503


def test_work_continues_when_an_unresponsive_database_answers_again(
    fleet: Fleet, silent: Gate, port: int
) -> None:
    fleet.start()
    until_served(port)
    silent.fall_silent()
    until(lambda: not_ready(port))
    # A restart would not help, so the liveness probe passes.
    assert get(port, "/healthz")[::2] == (200, "healthy\n")
    assert "no heartbeat has reached the database for" in get(port, "/readyz")[2]

    silent.speak()
    spoke = monotonic()
    until(lambda: make_due(fleet.url, "quick") is not None)
    until(lambda: [row["state"] for row in executions(fleet.url)] == ["SUCCEEDED"])

    assert monotonic() - spoke < 10 + SLOW_MACHINE
    until(lambda: not not_ready(port))


@contextmanager
def ending_in_time(seconds: float) -> Iterator[None]:
    started = monotonic()
    yield
    assert monotonic() - started < seconds + SLOW_MACHINE


def test_a_signal_ends_a_scheduler_in_time_while_its_database_does_not_answer(
    fleet: Fleet, silent: Gate, port: int
) -> None:
    process = fleet.start()
    until_served(port)
    until(lambda: make_due(fleet.url, "endless") is not None)
    until((fleet.shell.folder / "started").exists)
    silent.fall_silent()

    with ending_in_time(DRAIN + 10):
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert "results_given_up" in errors
    assert "Traceback" not in errors
