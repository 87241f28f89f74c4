"""The account that the embedded server runs under: the user's own, and for root another one.

PostgreSQL refuses to run as root, which is what containers and CI run as. Then the account
`pgserver` is made once, owns the data folder, and gets the right to pass through the folders above
it: to pass, not to list.
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
_MAY_PASS = stat.S_IXOTH
_MAY_READ = stat.S_IROTH


class Switch(TypedDict):
    """What subprocess needs to run a program as somebody else; all None: as ourselves."""

    user: int | None
    group: int | None
    extra_groups: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Account:
    """Who the server runs as."""

    uid: int
    gid: int

    @property
    def is_own(self) -> bool:
        """Whether it is the account of this process."""
        return self.uid == os.geteuid()

    def owns(self, folder: Path) -> bool:
        """Whether the folder is a real one of this account, and closed to others."""
        found = folder.lstat()
        closed = stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO) == 0
        return stat.S_ISDIR(found.st_mode) and found.st_uid == self.uid and closed

    def hand_over(self, folder: Path) -> None:
        """Make the account the owner of a folder that it can also reach."""
        if not self.is_own:
            os.chown(folder, self.uid, self.gid)
            _let_pass(folder)

    def let_use(self, programs: Path) -> None:
        """Let the account run what an installer under a strict umask kept for root."""
        if self.is_own:
            return
        _let_pass(programs)
        if not (programs / "postgres").stat().st_mode & _MAY_READ:
            _let_read(programs.parent)

    def switch(self) -> Switch:
        """Arguments for subprocess that make a program run as this account."""
        if self.is_own:
            return Switch(user=None, group=None, extra_groups=None)
        return Switch(user=self.uid, group=self.gid, extra_groups=())


def server_account() -> Account:
    """Return the own account, or the one that stands in for root."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    entry = _stand_in()
    return Account(entry.pw_uid, entry.pw_gid)


def _stand_in() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(_NAME)
    except KeyError:
        _make_stand_in()
    return pwd.getpwnam(_NAME)


def _make_stand_in() -> None:
    try:
        subprocess.run(_MAKE, check=True, capture_output=True)  # noqa: S603 -- a constant
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedServerError(
            f"the embedded server cannot run as root, and the account {_NAME} cannot be made: "
            "run as another user, or set TENANTCRON_DATABASE_URL"
        ) from error


def _let_pass(path: Path) -> None:
    for folder in path.parents:
        _add(folder, _MAY_PASS)


def _let_read(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        _add(path, _MAY_READ | _MAY_PASS if executable else _MAY_READ)


def _add(path: Path, rights: int) -> None:
    mode = path.stat().st_mode
    if mode & rights != rights:
        path.chmod(stat.S_IMODE(mode) | rights)
