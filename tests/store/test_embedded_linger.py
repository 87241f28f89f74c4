"""The embedded server keeps running between commands, and its watcher stops it when it is idle."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from support.processes import until

from tenantcron.store.embedded.home import FOLDER, Home
from tenantcron.store.embedded.postmaster import recorded_in, running_in
from tenantcron.store.embedded.server import ServerUse, StopResult, stop_idle_server
from tenantcron.store.embedded.watcher import await_watcher, ensure_watcher

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="reads processes and locks in /proc"
)

SOON, LATE = timedelta(seconds=0.2), timedelta(hours=1)


@pytest.fixture(scope="module")
def prepared(run_folder: Path) -> Path:
    """A folder in which the data exists already."""
    folder = Path(tempfile.mkdtemp(dir=run_folder)) / "with data"
    folder.mkdir()
    with using(folder, timedelta(0)):
        pass
    return folder


@pytest.fixture
def folder(prepared: Path) -> Iterator[Path]:
    yield prepared
    assert stop_idle_server(prepared) in (StopResult.STOPPED, StopResult.NOT_RUNNING)
    await_watcher(home_of(prepared))


def home_of(folder: Path) -> Home:
    return Home(folder / FOLDER)


@contextmanager
def using(folder: Path, linger: timedelta) -> Iterator[int]:
    """Use the server in this process; yield its process id."""
    use = ServerUse(folder / FOLDER, linger=linger)
    try:
        use.join()
        yield server_of(folder)
    finally:
        use.leave()


def server_of(folder: Path) -> int:
    found = running_in(home_of(folder).data)
    assert found is not None
    return found.pid


def is_running(folder: Path) -> bool:
    return running_in(home_of(folder).data) is not None


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def watcher_of(folder: Path) -> int:
    """Return the process that holds the lock of the watcher."""
    inode = home_of(folder).watcher.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        if "FLOCK" in line and line.split()[5].endswith(f":{inode}"):
            return _detached(folder)
    raise AssertionError("there is no watcher")


def _detached(folder: Path) -> int:
    """Return the process whose arguments name the folder: the lock names the one that took it."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if (
            b"tenantcron.store.embedded.watcher" in arguments
            and os.fsencode(folder / FOLDER) in arguments
        ):
            return int(entry.name)
    raise AssertionError("there is no process of the watcher")


def test_the_next_command_finds_the_same_server(folder: Path) -> None:
    with using(folder, LATE) as first:
        pass

    with using(folder, LATE) as second:
        assert second == first


def test_the_watcher_stops_an_idle_server(folder: Path) -> None:
    with using(folder, SOON):
        pass

    await_watcher(home_of(folder))

    assert not is_running(folder)
    assert recorded_in(home_of(folder).data) is None
    assert home_of(folder).watcher_log.read_text() == ""


def test_a_server_in_use_is_not_stopped_however_long_it_takes(folder: Path) -> None:
    with using(folder, SOON) as server:
        # Older than any linger.
        os.utime(home_of(folder).users, (0, 0))
        until_watched(folder)
        assert server_of(folder) == server

    await_watcher(home_of(folder))
    assert not is_running(folder)


def test_a_command_that_joins_while_the_server_stops_starts_it_again(folder: Path) -> None:
    for _ in range(5):
        with using(folder, timedelta(seconds=0.01)):
            pass
        with using(folder, timedelta(seconds=0.01)) as server:
            assert server_of(folder) == server
            assert watcher_of(folder)


def test_there_is_one_watcher(folder: Path) -> None:
    with using(folder, LATE):
        first = watcher_of(folder)
        with home_of(folder).exclusive():
            ensure_watcher(home_of(folder), 3600, None)
        assert watcher_of(folder) == first


def test_a_killed_watcher_is_replaced_by_the_next_command(folder: Path) -> None:
    with using(folder, LATE) as server:
        killed = watcher_of(folder)
        os.kill(killed, signal.SIGKILL)
        await_watcher(home_of(folder))

    with using(folder, LATE) as same:
        assert same == server
        assert watcher_of(folder) != killed


def test_the_watcher_ends_when_the_server_was_killed(folder: Path) -> None:
    with using(folder, LATE) as server:
        os.kill(server, signal.SIGKILL)

    await_watcher(home_of(folder))
    with using(folder, LATE):
        assert is_running(folder)


def test_a_command_without_linger_stops_the_server_and_the_watcher(folder: Path) -> None:
    with using(folder, LATE):
        pass
    with using(folder, timedelta(0)):
        pass

    assert not is_running(folder)
    await_watcher(home_of(folder))


def test_an_idle_server_can_be_stopped_at_once(folder: Path) -> None:
    with using(folder, LATE):
        assert stop_idle_server(folder) is StopResult.IN_USE

    assert stop_idle_server(folder) is StopResult.STOPPED
    assert stop_idle_server(folder) is StopResult.NOT_RUNNING
    assert stop_idle_server(folder / "elsewhere") is StopResult.NOT_RUNNING


def test_the_server_of_a_removed_folder_ends(folder: Path) -> None:
    copy = folder.with_name("removed")
    shutil.copytree(folder, copy, symlinks=True)
    _keep_owners(folder, copy)
    with using(copy, LATE) as server:
        until_watched(copy)

    # As users do; the server removes files at the same time.
    subprocess.run(["rm", "-rf", copy], check=True)

    until(lambda: not is_alive(server))


def test_the_server_of_a_moved_folder_ends_before_another_one_uses_the_data(folder: Path) -> None:
    moved = folder.with_name("moved")
    with using(folder, LATE) as server:
        pass
    folder.rename(moved)
    try:
        with using(moved, timedelta(0)) as second:
            assert second != server
            assert not is_alive(server)
    finally:
        moved.rename(folder)


def until_watched(folder: Path) -> None:
    """Wait until the watcher has examined the server: it has come back to wait for the lock."""
    home = home_of(folder)
    for _ in range(2):
        with home.exclusive():
            until(lambda: _has_waiter(home.lock))


def _has_waiter(file: Path) -> bool:
    inode = file.stat().st_ino
    locks = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and line.split()[6].endswith(f":{inode}") for line in locks)


def _keep_owners(source: Path, copy: Path) -> None:
    for path in [source, *source.rglob("*")]:
        owner = path.lstat()
        os.chown(copy / path.relative_to(source), owner.st_uid, owner.st_gid)
