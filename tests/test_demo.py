"""The demo of the README runs to its end, on a database of its own, and shows the dashboard."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from support.pages import README, ROOT
from support.patience import PATIENCE
from support.ports import free_port
from support.processes import until

# The environment that the test runs in is the one that is set up.
MAKE = (
    "make",
    "--no-print-directory",
    "--assume-old=.venv/.ready",
    f"BIN={Path(sys.executable).parent}",
)


def test_the_demo_of_the_readme_shows_a_night_that_was_caught_up_and_stays_until_ctrl_c(
    run_folder: Path,
) -> None:
    assert "\nmake demo " in README.read_text(encoding="utf-8")
    clone, port = _clone(Path(tempfile.mkdtemp(dir=run_folder)) / "a clone"), free_port()
    with subprocess.Popen(
        [*MAKE, "demo", "DEMO_RUN=8s", f"DEMO_PORT={port}"],
        cwd=clone,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # Ctrl-C reaches everything that a terminal has started.
        start_new_session=True,
    ) as demo:
        try:
            shown = _until_the_address(demo)
            page = _dashboard(f"http://127.0.0.1:{port}/ui", demo)
        finally:
            os.killpg(demo.pid, signal.SIGINT)
        # What is left over would hold on to the output.
        rest, _ = demo.communicate(timeout=PATIENCE)
    assert f"http://127.0.0.1:{port}/ui" in shown, shown + rest
    assert ": no findings" in shown
    # Executions, one that was skipped, and who changed the schedule.
    for part in ("SUCCEEDED", "SKIPPED", "\nlast changes\n"):
        assert part in shown
    found = re.search(r"(\d+) occurrences since", shown)
    assert found is not None
    # Of the night alone there are 92 of one schedule.
    assert int(found[1]) > 200
    assert "error: " not in shown + rest
    for part in ("Needs attention", "failed for good", "Next 24 hours", "Last 24 hours"):
        assert part in page
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")


def _clone(folder: Path) -> Path:
    """Copy what the demo needs to a folder whose name has a space, as people have them."""
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def _until_the_address(demo: "subprocess.Popen[str]") -> str:
    assert demo.stdout is not None
    shown = ""
    for line in demo.stdout:
        shown += line
        if line.startswith("The dashboard: "):
            break
    return shown


def _dashboard(url: str, demo: "subprocess.Popen[str]") -> str:
    """Return the page once it is served and a scheduler is at work."""
    page = ""

    def is_lively() -> bool:
        nonlocal page
        assert demo.poll() is None
        with suppress(httpx.TransportError):
            page = httpx.get(url).raise_for_status().text
        return bool(page) and "none is running" not in page

    until(is_lively)
    return page


def test_for_scripts_the_demo_is_the_same_and_ends_before_the_dashboard() -> None:
    once, whole = (_commands("ONCE=1"), _commands())
    assert whole[: len(once)] == once
    assert not any("tenantcron serve" in line for line in once)
    assert any("tenantcron serve" in line for line in whole)


def _commands(*variables: str) -> list[str]:
    dry = subprocess.run(
        [*MAKE, "--dry-run", "demo", *variables],
        cwd=ROOT,
        check=True,
        text=True,
        capture_output=True,
    )
    return dry.stdout.splitlines()
