"""The account of the embedded server: the user's own, and another one for root.

PostgreSQL refuses to run as root, but containers and CI often do. Then the account `pgserver` is
created once. It owns the data folder and may traverse the folders above it, but not list them.
"""

import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tenantcron.store.connection.errors import EmbeddedServerError

_NAME = "pgserver"
_MAKE = ("useradd", "--system", "--no-create-home", "--shell", "/bin/false", _NAME)
_MAY_TRAVERSE = stat.S_IXOTH
_MAY_READ = stat.S_IROTH


class Switch(TypedDict):
    """Arguments of subprocess that run a program as another user; all None: as this user."""

    user: int | None
    group: int | None
    extra_groups: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Account:
    """The account that the server runs as."""

    uid: int
    gid: int

    @property
    def is_own(self) -> bool:
        """Whether it is the account of this process."""
        return self.uid == os.geteuid()

    def owns(self, folder: Path) -> bool:
        """Whether the path is a folder that belongs to this account and is private."""
        found = folder.lstat()
        closed = stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO) == 0
        return stat.S_ISDIR(found.st_mode) and found.st_uid == self.uid and closed

    def hand_over(self, folder: Path) -> None:
        """Make the account the owner of a folder, and let it reach the folder."""
        if not self.is_own:
            os.chown(folder, self.uid, self.gid)
            _allow_traversal(folder)

    def let_use(self, programs: Path) -> None:
        """Let the account run programs that a strict umask made private to root."""
        if self.is_own:
            return
        _allow_traversal(programs)
        if not (programs / "postgres").stat().st_mode & _MAY_READ:
            _allow_reading(programs.parent)

    def switch(self) -> Switch:
        """Return the arguments of subprocess that run a program as this account."""
        if self.is_own:
            return Switch(user=None, group=None, extra_groups=None)
        return Switch(user=self.uid, group=self.gid, extra_groups=())


def server_account() -> Account:
    """Return the account of this process, or the server account if that is root."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    entry = _server_user()
    return Account(entry.pw_uid, entry.pw_gid)


def _server_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(_NAME)
    except KeyError:
        _create_server_user()
    return pwd.getpwnam(_NAME)


def _create_server_user() -> None:
    try:
        subprocess.run(_MAKE, check=True, capture_output=True)  # noqa: S603 -- a constant
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedServerError(
            f"the embedded server cannot run as root, and the account {_NAME} cannot be created: "
            "run as another user, or set TENANTCRON_DATABASE_URL"
        ) from error


def _allow_traversal(path: Path) -> None:
    for folder in path.parents:
        _add(folder, _MAY_TRAVERSE)


def _allow_reading(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        _add(path, _MAY_READ | _MAY_TRAVERSE if executable else _MAY_READ)


def _add(path: Path, rights: int) -> None:
    mode = path.stat().st_mode
    if mode & rights != rights:
        path.chmod(stat.S_IMODE(mode) | rights)
