"""Signals to the commands that run until they are stopped, on an embedded server."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.fleet import Shell
from support.patience import PATIENCE
from support.ports import free_port
from support.processes import until
from support.scraping import until_served

# A replica that never comes to the end of its drain.
ENDLESS = """
import asyncio
from pathlib import Path
from tenantcron.scheduler.replica.replica_loops import ReplicaRun
from tenantcron.targets.python.registry import saga

@saga("nothing")
async def nothing(execution):
    pass

async def drain(self):
    Path("draining").touch()
    await asyncio.Event().wait()

ReplicaRun._drain = drain
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's account may reach, unlike pytest's own."""
    place = Path(tempfile.mkdtemp(prefix="tenantcron-signals-"))
    yield place
    shutil.rmtree(place, ignore_errors=True)


def end_twice(process: "subprocess.Popen[str]", draining: Path) -> None:
    process.send_signal(signal.SIGTERM)
    until(draining.exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)


def is_running(folder: Path) -> bool:
    return (folder / ".tenantcron" / "postgres" / "postmaster.pid").exists()


@contextmanager
def running(folder: Path, more: str = "", **variables: str) -> Iterator["subprocess.Popen[str]"]:
    (folder / "endless.py").write_text(ENDLESS + more, encoding="utf-8")
    port = free_port()
    options = ("--handlers", "endless", "--metrics-port", str(port))
    process = Shell(folder).start("run", *options, PYTHONPATH=str(folder), **variables)
    try:
        until_served(port)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_signal_stops_the_embedded_server(folder: Path) -> None:
    with running(folder) as process:
        assert is_running(folder)

        end_twice(process, folder / "draining")

        assert process.returncode == 130
        assert not is_running(folder)


def test_a_shutdown_that_takes_too_long_is_forced(folder: Path) -> None:
    hasty = "from tenantcron.cli import run\nrun.LONGEST_STOP = 0.5\n"
    with running(folder, hasty, TENANTCRON_DRAIN="0s") as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)

        assert process.returncode == 1
        assert "stop_forced" in errors
        assert not is_running(folder)
