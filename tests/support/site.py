"""The documentation site, built once for all tests of a run; `make test` installs its tools."""

import fcntl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "build" / "site-tools"
LABEL = "main"


def site_python() -> Path:
    """Return the Python that has Sphinx; skip the test if it is not installed."""
    if not (TOOLS / ".ready").exists():
        pytest.skip("the tools of the site are not installed: make build/site-tools/.ready")
    return TOOLS / "bin" / "python"


def built_site(run_folder: Path) -> Path:
    """Return the folder of the site; the first worker that needs it builds it."""
    site_python()
    folder = run_folder / "site"
    with (run_folder / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "versions.json").exists():
            options = [str(folder), "--python", str(site_python())]
            command = [sys.executable, "-m", "docs.make_site", *options]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


def staged_pages(run_folder: Path) -> list[Path]:
    """Return all pages of the site as Markdown, the generated ones included."""
    built_site(run_folder)
    return sorted((run_folder / "site-work" / "source").rglob("*.md"))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
        pass


@contextmanager
def served_files(folder: Path) -> Iterator[str]:
    """Serve static files on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
