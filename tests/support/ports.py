"""Ports for processes that need a port to listen on."""

import os
import socket
from contextlib import suppress
from random import SystemRandom

# Below the ephemeral ports of the system, so no client gets one by chance between this check and
# the moment in which the process listens on it.
_PORTS = range(20_000, 30_000)
# Each worker of a run has its own share of them.
_WORKERS = 16
_random = SystemRandom()


def free_port() -> int:
    """Return a port that is free now."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = _PORTS[worker % _WORKERS :: _WORKERS]
    while True:
        with suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", _random.choice(own)))
            return int(found.getsockname()[1])
