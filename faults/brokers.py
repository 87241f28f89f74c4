"""A RabbitMQ on loopback that can be killed and started again on its files."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from faults.postgres import HarnessError

# The script for ordinary users; the one in the path changes to the user of the system's server.
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_TIMEOUT = 180.0


@dataclass(slots=True)
class Broker:
    """A broker whose port and files stay the same."""

    url: str
    port: int
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    def launch(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            self.command,
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self.launch()
        deadline = monotonic() + _TIMEOUT
        while not self.accepts():
            if monotonic() > deadline:
                raise HarnessError(f"{self.command[0]} accepts no connections")
            sleep(0.1)

    def accepts(self) -> bool:
        """Whether it accepts connections; raise an error if it has ended."""
        if self.process is None or self.process.poll() is not None:
            raise HarnessError(f"{self.command[0]} has ended")
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        """End it and its children as in a crash."""
        if self.process is not None:
            # The session is new, so the group has its own processes only.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def missing_program() -> str | None:
    """Return the program that RabbitMQ needs and that is not installed; None if all are."""
    if shutil.which("epmd") is None:
        return "epmd"
    return None if RABBITMQ.exists() else "rabbitmq-server"


@contextmanager
def rabbitmq(folder: Path, find_port: Callable[[], int] = free_port) -> Iterator[Broker]:
    """Run RabbitMQ for the duration of the block."""
    if (missing := missing_program()) is not None:
        raise HarnessError(f"{missing} is missing: apt-get install rabbitmq-server")
    names, port = find_port(), find_port()
    (folder / "plugins").write_text("[].", encoding="utf-8")
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"tenantcron{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(find_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        # One scheduler that does not spin: the machine is shared with other tests.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
    }
    epmd = shutil.which("epmd") or "epmd"
    registry = subprocess.Popen([epmd, "-port", str(names), "-address", "127.0.0.1"])
    broker = Broker(f"amqp://guest:guest@127.0.0.1:{port}//", port, (str(RABBITMQ),), environment)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        registry.kill()
        registry.wait()
