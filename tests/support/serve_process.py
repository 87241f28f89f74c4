"""`tenantcron serve` as a process of its own."""

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
def serving(shell: Shell, *arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Start the command, and wait until it answers."""
    port = free_port()
    process = shell.start("serve", "--port", str(port), *arguments)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, process)
        yield url, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)


def _wait_for(url: str, process: "subprocess.Popen[str]") -> None:
    """A process of its own has its own clock: this is the one thing to wait for."""
    patience = monotonic() + PATIENCE
    while monotonic() < patience:
        assert process.poll() is None, process.communicate()
        try:
            httpx.get(f"{url}/healthz", timeout=PATIENCE)
        except httpx.TransportError:
            sleep(0.1)
        else:
            return
    raise AssertionError("it never answers")
