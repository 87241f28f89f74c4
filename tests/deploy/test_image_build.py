"""The image of the Dockerfile, built by podman on a base of the programs that are installed here.

The build downloads wheels from PyPI. It runs without a container runtime: podman's chroot isolation
also works inside a virtual machine or a container.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from support.base_image import can_make_root, make_root
from support.pages import ROOT

# It takes a minute, so it runs only where it is asked for.
IS_ROOT = os.geteuid() == 0
CAN_RUN = "IMAGE_TESTS" in os.environ and IS_ROOT and shutil.which("podman") and can_make_root()
pytestmark = pytest.mark.skipif(not CAN_RUN, reason="needs IMAGE_TESTS, podman and root")

BASE = "localhost/python"


class Podman:
    """podman with its own storage."""

    def __init__(self, folder: Path) -> None:
        self.command = (
            *("podman", "--root", str(folder / "storage"), "--runroot", str(folder / "run")),
            *("--storage-driver", "overlay"),
        )

    def __call__(self, *arguments: str) -> str:
        run = subprocess.run([*self.command, *arguments], capture_output=True, check=False)
        assert run.returncode == 0, run.stderr.decode()
        return run.stdout.decode().strip()


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """A storage with the base image."""
    # podman accepts short paths only.
    folder = Path(mkdtemp(prefix="tc-", dir="/tmp"))
    podman, root = Podman(folder), folder / "base"
    root.mkdir()
    make_root(root)
    archive = folder / "base.tar"
    subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
    podman("import", str(archive), f"{BASE}:latest")
    yield podman
    podman("unmount", "--all", "--force")
    podman("rmi", "--all", "--force")
    # It takes hundreds of megabytes.
    shutil.rmtree(folder)


def test_make_image_builds_an_image_that_runs_as_an_ordinary_user(podman: Podman) -> None:
    digest = podman("image", "inspect", "--format", "{{.Digest}}", BASE)
    options = (
        *("--isolation chroot", "--network host", f"--build-arg PYTHON_IMAGE={BASE}"),
        # The package index of this machine.
        *(
            f"--volume {path}:{path}:ro"
            for path in ("/etc/ssl/certs", "/etc/pip.conf")
            if Path(path).exists()
        ),
    )
    variables = (
        f"PYTHON_DIGEST={digest}",
        f"ENGINE={' '.join(podman.command)}",
        f"IMAGE_OPTIONS={' '.join(options)}",
    )
    built = subprocess.run(
        ["make", "--no-print-directory", "image", *variables],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]

    image = podman("image", "inspect", "--format", "{{.Config.User}} {{.Config.Cmd}}", "tenantcron")
    assert image == "10001 [run]"
    root = podman("image", "mount", "tenantcron")
    program = ["/opt/tenantcron/bin/tenantcron", "--version"]
    version = subprocess.run(
        ["chroot", "--userspec=10001:10001", root, *program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert version.stdout.startswith("tenantcron "), version.stderr
    assert not (Path(root) / "opt" / "build").exists(), "the build tools are in the image"
