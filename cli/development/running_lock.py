"""One `tenantcron dev` per folder: the kernel's lock on a file, which contains its address."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenantcron.core.errors import UsageError
from tenantcron.store.embedded.home import FOLDER, Home, try_lock


@contextmanager
def only_one(folder: Path, address: str) -> Iterator[None]:
    """Hold the lock of a folder; raise UsageError with the address of the process that has it."""
    home = Home(folder / FOLDER)
    home.create()
    with (home.folder / "dev").open("a+b") as lock:
        if not try_lock(lock):
            lock.seek(0)
            raise UsageError(
                f"`tenantcron dev` already runs in this folder, see {lock.read().decode()}: "
                "stop it with Ctrl-C in its terminal first"
            )
        lock.truncate(0)
        lock.write(address.encode())
        lock.flush()
        yield
