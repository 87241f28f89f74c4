"""The probes of a scheduler whose process hangs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet import Shell
from support.ports import free_port
from support.processes import Fleet, until
from support.scraping import get, until_served

# A step that never ends because of a bug.
HANGING = """
import asyncio
from tenantcron.scheduler.replica.fire_loop import FireLoop
from tenantcron.targets.python.registry import saga

@saga("nothing")
async def nothing(execution):
    pass

async def fire(self):
    await asyncio.Event().wait()

FireLoop.step = fire
"""


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, port: int) -> Iterator[Fleet]:
    (tmp_path / "work.py").write_text(HANGING, encoding="utf-8")
    options = ("--handlers", "work", "--metrics-port", str(port))
    made = Fleet(
        Shell(tmp_path, database_url),
        database_url,
        *options,
        TENANTCRON_DATABASE_TIMEOUT="1s",
        TENANTCRON_DRAIN="0s",
    )
    try:
        yield made
    finally:
        made.close()


def test_a_loop_that_hangs_for_two_leases_fails_the_liveness_probe(fleet: Fleet, port: int) -> None:
    process = fleet.start()
    until_served(port)
    assert get(port, "/healthz")[::2] == (200, "healthy\n")

    until(lambda: get(port, "/healthz")[0] == 503)

    reason = "the loop fire has made no progress for"
    assert get(port, "/healthz")[2].startswith(f"not healthy: {reason} 1")
    assert reason in get(port, "/readyz")[2]
    process.terminate()
    process.communicate()
    # The step is cancelled, and the rest of the shutdown is orderly.
    assert process.returncode == 0
