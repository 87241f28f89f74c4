"""`tenantcron serve` as a process of its own."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from support.fleet import Shell


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


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
            process.communicate(timeout=30)


def _wait_for(url: str, process: "subprocess.Popen[str]") -> None:
    """A process of its own has its own clock: this is the one thing to wait for."""
    for _ in range(300):
        assert process.poll() is None, process.communicate()
        try:
            httpx.get(f"{url}/healthz")
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("it never answers")
