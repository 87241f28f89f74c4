"""What the tests on a database share. Async tests run in asyncio, by the plugin of anyio.

The server's data is not under pytest's own temporary folder: as root the server runs under another
account, and every start of pytest shuts other accounts out of that folder.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.builds import chosen_build
from support.database import TEMPLATE, Server, shared_server
from support.order import longest_first
from support.scratch import prefer_memory

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database, open_database

RUN_FOLDER = "TESTS_RUN_FOLDER"

# The same examples in every run, and no matter how long one takes: a run that fails says something
# about the code, and nothing about chance or the machine. Others are drawn by
# `pytest --hypothesis-profile=others`.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("others", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")


def pytest_xdist_auto_num_workers() -> int:
    """Start one more worker than processors: tests often wait for processes that they started."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    """Make one folder for the run; workers inherit its name."""
    # A shell that runs the tests in the background makes its children ignore Ctrl-C. Processes
    # under test inherit the default from here: code in a forked child can wait for ever for a lock
    # that another thread held at the fork.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        prefer_memory()
        os.environ[RUN_FOLDER] = tempfile.mkdtemp(prefix="tenantcron-tests-")
        # The contexts of the user who runs the tests must not matter.
        os.environ["XDG_CONFIG_HOME"] = str(Path(os.environ[RUN_FOLDER]) / "config")
        # No embedded server outlives the test that needed it.
        os.environ["TENANTCRON_EMBEDDED_LINGER"] = "0s"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove it when all workers are done."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(RUN_FOLDER), ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no worker is left alone with it at the end."""
    items.sort(key=longest_first)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The engine is made for asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def run_folder() -> Path:
    """The folder of this run, in which an embedded server can live, too."""
    return Path(os.environ[RUN_FOLDER])


@pytest.fixture(scope="session")
def server(run_folder: Path) -> Iterator[Server]:
    """One server for all workers of the run, started by the first test that needs it."""
    with shared_server(run_folder, chosen_build()) as running:
        yield running


@pytest.fixture
def empty_database_url(server: Server) -> Iterator[str]:
    """A database of the test's own, without tenantcron in it."""
    with server.database("template1") as url:
        yield url


@pytest.fixture
def database_url(server: Server) -> Iterator[str]:
    """A migrated database of the test's own, for commands to run on."""
    with server.database(TEMPLATE) as url:
        yield url


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    """A migrated database of the test's own, open."""
    async with open_database(Settings(database_url=database_url, folder=tmp_path)) as opened:
        yield opened
