"""`tenantcron serve` as a separate process."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

import httpx
from support.fleet import Shell
from support.patience import PATIENCE
from support.ports import free_port


@contextmanager
def serving(
    shell: Shell, *arguments: str, at: int | None = None, **variables: str
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Start the command, at a free port unless one is given, and wait until it responds."""
    port = at or free_port()
    process = shell.start("serve", "--port", str(port), *arguments, **variables)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, process)
        yield url, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)


def _wait_for(url: str, process: "subprocess.Popen[str]") -> None:
    """Poll until the process responds, because a separate process has its own clock."""
    patience = monotonic() + PATIENCE
    while monotonic() < patience:
        assert process.poll() is None, process.communicate()
        try:
            httpx.get(f"{url}/healthz", timeout=PATIENCE)
        except httpx.TransportError:
            sleep(0.1)
        else:
            return
    raise AssertionError("the server does not respond")
