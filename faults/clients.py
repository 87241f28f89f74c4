"""The clients that submit tasks in a run, and the API that they use; all of them are killed."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from faults.brokers import free_port
from faults.forkserver import CLIENT
from faults.journal import Journal
from faults.testbed import Testbed
from faults.timers import Timers

# Through the faulty network, and directly to all servers.
_CLIENTS = {"near": "near", "direct": None}
_API = "API"
# Seconds between two kills, and until it is started again.
_PAUSES = {"API": (6.0, 14.0), "client": (3.0, 9.0)}
_AWAY = (0.2, 1.5)


@dataclass(slots=True)
class Clients:
    """Starts, kills and restarts the clients and the API."""

    testbed: Testbed
    journal: Journal
    random: Random
    timers: Timers
    api_port: int = field(default_factory=free_port)
    pids: dict[str, int] = field(default_factory=dict)
    is_over: bool = False

    @property
    def file(self) -> Path:
        """The file in which clients record."""
        return self.testbed.folder / "tasks"

    def start(self) -> None:
        """Start all of them, and plan their kills."""
        for name in (_API, *_CLIENTS):
            self._start(name)
            self._plan(name)

    def stop(self) -> None:
        """Kill all of them for good."""
        self.is_over = True
        for pid in self.pids.values():
            _kill(pid)

    def _start(self, name: str) -> None:
        if self.is_over:
            return
        if name == _API:
            # The limit protects callers from each other; here all are one.
            unlimited = {"TENANTCRON_API_RATE_LIMIT": "100000"}
            argv = ["serve", "--anonymous", "--port", str(self.api_port)]
            environment = {**self.testbed.environment(), **unlimited}
        else:
            url = self.testbed.environment(_CLIENTS[name])["TENANTCRON_DATABASE_URL"]
            api = f"http://127.0.0.1:{self.api_port}"
            argv, environment = [CLIENT, name, url, api, str(self.file)], {}
        self.pids[name] = self.testbed.server.start(argv, environment)

    def _plan(self, name: str) -> None:
        kind = name if name == _API else "client"
        self.timers.after(self.random.uniform(*_PAUSES[kind]), self._strike(name, kind))

    def _strike(self, name: str, kind: str) -> Callable[[], None]:
        def strike() -> None:
            if not self.is_over:
                _kill(self.pids[name])
                self.journal.note(f"{kind} killed", name)
                self.timers.after(self.random.uniform(*_AWAY), lambda: self._start(name))
                self._plan(name)

        return strike


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
