"""Servers besides the embedded one; `support.builds` lists them."""

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
from support.builds import Build, builds
from support.database import Server, shared_server

from tenantcron.store.embedded.os_users import server_account

# It counts compiled plans per statement.
COUNTING = {"shared_preload_libraries": "pg_stat_statements"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses `build` once for each build."""
    if "build" in metafunc.fixturenames:
        chosen = builds()
        metafunc.parametrize(
            "build", chosen, ids=[build.name for build in chosen], scope="session", indirect=True
        )


@pytest.fixture(scope="session")
def build(request: pytest.FixtureRequest) -> Build:
    """One of the builds."""
    chosen: Build = request.param
    return chosen


@pytest.fixture(scope="session")
def server(build: Build, run_folder: Path) -> Iterator[Server]:
    """A server of that build, which all workers share."""
    folder = run_folder / f"postgres-{build.name}"
    folder.mkdir(exist_ok=True)
    with shared_server(folder, build) as running:
        yield running


@pytest.fixture(scope="session")
def jit_server(run_folder: Path) -> Iterator[Server]:
    """A server that compiles plans and counts them."""
    folder = run_folder / "postgres-jit"
    folder.mkdir(exist_ok=True)
    with shared_server(folder, Build("debian"), COUNTING) as running:
        yield running


@pytest.fixture
def failover_folder(run_folder: Path) -> Iterator[Path]:
    """A folder that the account of the servers may enter, unlike pytest's own folders."""
    folder = Path(mkdtemp(prefix="failover-", dir=run_folder))
    server_account().hand_over(folder)
    yield folder
    rmtree(folder, ignore_errors=True)
