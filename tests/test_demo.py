"""The demo of the README runs to its end, on its own database, and shows the dashboard."""

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
from support.brokers import require_rabbitmq
from support.pages import README, ROOT
from support.patience import PATIENCE
from support.ports import free_port
from support.processes import until

from tenantcron.store.embedded.server import StopResult, stop_idle_server

# Use the environment of the test instead of creating one.
MAKE = (
    "make",
    "--no-print-directory",
    "--assume-old=.venv/.ready",
    f"BIN={Path(sys.executable).parent}",
)


def test_the_demo_catches_up_a_night_and_shows_the_dashboard_until_ctrl_c(
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
        # As for a user: the server keeps running between the commands.
        env=os.environ | {"TENANTCRON_EMBEDDED_LINGER": "5m"},
        # A terminal sends Ctrl-C to the entire process group.
        start_new_session=True,
    ) as demo:
        try:
            shown = _until_the_address(demo)
            page = _dashboard(f"http://127.0.0.1:{port}/ui", demo)
        finally:
            os.killpg(demo.pid, signal.SIGINT)
        # A process that is still running would keep the output open.
        rest, _ = demo.communicate(timeout=PATIENCE)
    assert stop_idle_server(clone / "build" / "demo") is StopResult.STOPPED
    assert f"http://127.0.0.1:{port}/ui" in shown, shown + rest
    assert ": no findings" in shown
    # Executions, a skipped one, and the audit trail of the schedule.
    for part in ("SUCCEEDED", "SKIPPED", "\nlast changes\n"):
        assert part in shown
    found = re.search(r"(\d+) occurrences since", shown)
    assert found is not None
    # One schedule alone has 92 in the night.
    assert int(found[1]) > 200
    assert "error: " not in shown + rest
    for part in ("Needs attention", "failed permanently", "Next 24 hours", "Last 24 hours"):
        assert part in page
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")


def _clone(folder: Path) -> Path:
    """Copy the files of the demo to a folder whose name has a space."""
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


def _until_the_address(demo: "subprocess.Popen[str]") -> str:
    assert demo.stdout is not None
    shown = ""
    for line in demo.stdout:
        shown += line
        if line.startswith("Dashboard "):
            break
    return shown


def _dashboard(url: str, demo: "subprocess.Popen[str]") -> str:
    """Return the page once it is served and a scheduler is running."""
    page = ""

    def is_running() -> bool:
        nonlocal page
        assert demo.poll() is None
        with suppress(httpx.TransportError):
            page = httpx.get(url).raise_for_status().text
        return bool(page) and "none is running" not in page

    until(is_running)
    return page


def test_with_once_the_demo_exits_before_the_dashboard() -> None:
    once, complete = (_commands("ONCE=1"), _commands())
    assert complete[: len(once)] == once
    assert not any("tenantcron dev --manifests" in line for line in once)
    assert any("tenantcron dev --manifests" in line for line in complete)


def test_with_celery_the_demo_adds_a_celery_worker() -> None:
    assert not any("celery/demo.py" in line for line in _commands())
    assert any("celery/demo.py" in line for line in _commands("CELERY=1"))


def test_the_celery_demo_shows_progress_result_and_end_of_a_real_worker(run_folder: Path) -> None:
    require_rabbitmq()
    folder = Path(tempfile.mkdtemp(dir=run_folder))
    kept = {key: value for key, value in os.environ.items() if "DATABASE_URL" not in key}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / "celery" / "demo.py"],
            cwd=folder,
            env={**kept, "PATH": path, "TENANTCRON_EMBEDDED_LINGER": "5m"},
            text=True,
            capture_output=True,
            check=False,
            timeout=3 * PATIENCE,
        )
    finally:
        stop_idle_server(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    ended = done.stdout.partition("$ tenantcron execution show ")[2]
    for part in ("SUCCEEDED", "handed over to a remote worker", "progress: 100 %, grace"):
        assert part in ended, done.stdout
    assert 'result: {"invoices": 4}' in ended


def _commands(*variables: str) -> list[str]:
    dry = subprocess.run(
        [*MAKE, "--dry-run", "demo", *variables],
        cwd=ROOT,
        check=True,
        text=True,
        capture_output=True,
    )
    return dry.stdout.splitlines()
