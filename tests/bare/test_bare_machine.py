"""The errors of the script for bare machines. CI runs the script itself."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("bare_machine.sh")


def run(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({} if path is None else {"PATH": path})
    return subprocess.run(
        ["/bin/bash", SCRIPT, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", [(), ("sid",), ("--rot", "x", "trixie"), ("--root",)])
def test_wrong_usage_exits_with_2_and_prints_the_usage(arguments: tuple[str, ...]) -> None:
    called = run(*arguments)
    assert called.returncode == 2
    assert called.stderr.startswith("usage: ")


def test_help_fits_a_terminal() -> None:
    called = run("--help")
    assert called.returncode == 0
    assert max(map(len, called.stdout.splitlines())) <= 80


def test_without_root_or_debootstrap_it_names_what_is_missing(tmp_path: Path) -> None:
    for tool in ("dirname", "id"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    called = run("trixie", path=str(tmp_path))
    assert called.returncode == 3
    missing = "apt-get install debootstrap" if os.geteuid() == 0 else "run it as root"
    assert missing in called.stderr
