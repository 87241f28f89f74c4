"""A base image of the programs that are installed here, because no registry may be reachable."""

import os
import shutil
import subprocess
from pathlib import Path

# Like python:slim: what `RUN` needs, and Python with venv.
_PACKAGES = (
    *("base-files", "bash", "ca-certificates", "coreutils", "dash", "libc-bin", "passwd"),
    *("python3", "python3-venv"),
)
_DEPENDS = (
    *("apt-cache", "depends", "--recurse", "--installed", "--no-recommends", "--no-suggests"),
    *("--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"),
)
_USERS = {"passwd": "root:x:0:0:root:/root:/bin/bash\n", "group": "root:x:0:\n"}


def can_make_root() -> bool:
    """Whether this is a Debian with the packages of the base."""
    if shutil.which("dpkg-query") is None or shutil.which("apt-cache") is None:
        return False
    command = ["dpkg-query", "--show", *_PACKAGES]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def make_root(root: Path) -> None:
    """Copy the files of the packages and of their dependencies into a folder."""
    for link in ("bin", "lib", "lib64", "sbin"):
        if Path("/", link).is_symlink():
            (root / "usr" / link).mkdir(parents=True)
            (root / link).symlink_to(f"usr/{link}")
    for listed in _files():
        # Packages list files in /lib, which is a link.
        path = Path(os.path.realpath(listed.parent)) / listed.name
        if path.is_symlink() or path.is_file():
            copy = root / path.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy, follow_symlinks=False)
    (root / "usr/bin/python").symlink_to("python3")
    for folder in ("dev", "proc", "sys", "root", "srv", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name, text in _USERS.items():
        (root / "etc" / name).write_text(text, encoding="utf-8")


def _files() -> list[Path]:
    found = subprocess.run([*_DEPENDS, *_PACKAGES], capture_output=True, text=True, check=True)
    packages = {line for line in found.stdout.splitlines() if line[0] not in " <|"}
    command = ["dpkg-query", "--listfiles", *sorted(packages)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    # Virtual packages have no files.
    return [Path(line) for line in sorted(set(listed.stdout.splitlines())) if line[:1] == "/"]
