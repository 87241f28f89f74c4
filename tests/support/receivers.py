"""The example service as a process, and a web server for its keys."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "receiver"


@contextmanager
def running(database_url: str, keys: str) -> Iterator[str]:
    """Run the example as a process, with keys from a URL or a file; yield its URL."""
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLE), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--factory", "service:create_app"],
        env=os.environ | {"BILLING_DATABASE_URL": database_url, "BILLING_KEYS": keys},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield _address(process)
    finally:
        process.terminate()
        process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr
    output = []
    for line in process.stderr:
        output.append(line)
        if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
            return found[1]
    raise AssertionError("".join(output))


@contextmanager
def published(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        """Logs nothing."""

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
