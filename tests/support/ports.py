"""Ports for processes that have to be told where to listen."""

import os
import socket
from contextlib import suppress
from random import SystemRandom

# Below those that the system hands out by itself: between the moment in which one is found to be
# free and the one in which a process listens there, nobody gets it by chance.
_PORTS = range(20_000, 30_000)
# Each worker of a run has its own share of them.
_WORKERS = 16
_random = SystemRandom()


def free_port() -> int:
    """Return a port that nobody listens at now."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = _PORTS[worker % _WORKERS :: _WORKERS]
    while True:
        with suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", _random.choice(own)))
            return int(found.getsockname()[1])
