"""The scheduler's side of the fork server: start it, fork children, and signal them."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from asyncio import AbstractEventLoop, Future, StreamReader, StreamWriter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, NamedTuple

from tenantcron.core.errors import UsageError
from tenantcron.targets.python.isolation.messages import LONGEST_LINE

_SERVER: Final = "tenantcron.targets.python.isolation.server"
_CHUNK: Final = 1 << 16
# Seconds for a closed server to kill its children and exit.
_EXIT_TIMEOUT: Final = 5.0


class Ending(NamedTuple):
    """How a child exited: its exit status, negative for a signal, or why there is none."""

    status: int | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """A child: the socket to it, and a future of how it exits."""

    number: int
    reader: StreamReader
    writer: StreamWriter
    ending: Future[Ending]
    _server: "Forkserver"

    def signal(self, which: signal.Signals) -> None:
        """Signal the child, unless it has exited; any thread may call this."""
        self._server.signal(self.number, which)


@dataclass(slots=True)
class _Running:
    """A running server."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    sagas: frozenset[str]
    rest: bytes = b""
    children: dict[int, Future[Ending]] = field(default_factory=dict)


class Forkserver:
    """Forks children that have the handlers loaded; restarts the server if it has exited."""

    def __init__(self, handlers: Sequence[str], modules: Sequence[str], level: str) -> None:
        self._handlers, self._modules, self._level = list(handlers), list(modules), level
        self._running: _Running | None = None
        self._number = 0
        self._starting = asyncio.Lock()
        # The thread that renews leases signals children, too.
        self._sending = Lock()

    def start(self) -> frozenset[str]:
        """Start a server and wait until it has loaded the handlers; return their sagas."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 -- our own module and interpreter
                [sys.executable, "-m", _SERVER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        sagas = self._configured(ours)
        ours.setblocking(False)
        self._running = _Running(process, ours, sagas)
        return sagas

    async def fork(self) -> Child:
        """Fork a child."""
        server = await self._server()
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        self._number += 1
        number, ending = self._number, loop.create_future()
        server.children[number] = ending
        with theirs, self._sending:
            request = json.dumps({"fork": number}).encode() + b"\n"
            socket.send_fds(server.control, [request], [theirs.fileno()])
        reader, writer = await asyncio.open_connection(sock=ours, limit=2 * LONGEST_LINE)
        return Child(number, reader, writer, ending, self)

    def signal(self, number: int, which: signal.Signals) -> None:
        """Signal a child; without a server it has exited already."""
        if self._running is None:
            return
        line = json.dumps({"signal": int(which), "of": number}).encode() + b"\n"
        with self._sending, suppress(OSError):
            self._running.control.send(line)

    def close(self) -> None:
        """Stop the server, which kills its remaining children."""
        if self._running is None:
            return
        process, control = self._running.process, self._running.control
        self._gone(self._running)
        control.close()
        try:
            process.wait(_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _configured(self, control: socket.socket) -> frozenset[str]:
        configuration = {
            "path": sys.path,
            "handlers": self._handlers,
            "modules": self._modules,
            "level": self._level,
        }
        with suppress(BrokenPipeError):
            control.sendall(json.dumps(configuration).encode() + b"\n")
        reply = json.loads(control.makefile("rb").readline() or b"{}")
        if "ready" in reply:
            return frozenset(reply["ready"])
        control.close()
        why = reply.get("failed", "it exited while importing the handlers")
        raise UsageError(f'the process for handlers with isolation="process" cannot start: {why}')

    async def _server(self) -> _Running:
        """Return the server, watched by the running loop; start one if there is none."""
        async with self._starting:
            if self._running is None:
                await asyncio.to_thread(self.start)
            server = self._running
            if server is None:
                raise RuntimeError("the fork server exited while starting")
            loop = asyncio.get_running_loop()
            loop.add_reader(server.control, self._read, loop, server)
            return server

    def _read(self, loop: AbstractEventLoop, server: _Running) -> None:
        try:
            data = server.control.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(server.control)
            self._gone(server)
            server.control.close()
            server.process.poll()
            return
        *lines, server.rest = (server.rest + data).split(b"\n")
        for line in lines:
            reply = json.loads(line)
            ending = server.children.pop(reply["of"], None)
            _set_ending(ending, reply.get("status"), reply.get("error"))

    def _gone(self, server: _Running) -> None:
        """Report that the server exited, and with it all its children."""
        if self._running is server:
            self._running = None
        for ending in server.children.values():
            _set_ending(ending, None, "the fork server exited")
        server.children.clear()


def _set_ending(ending: Future[Ending] | None, status: int | None, error: str | None) -> None:
    if ending is not None and not ending.done() and not ending.get_loop().is_closed():
        ending.set_result(Ending(status, error or ""))


def reason(ending: Ending, memory: str | None) -> str:
    """Return why an attempt failed whose child exited without a result."""
    limit = f" (its memory limit is {memory})" if memory else ""
    if ending.status is None:
        return f"its process is gone: {ending.error}"
    if ending.status >= 0:
        return f"its process exited with status {ending.status}{limit}"
    number = -ending.status
    return f"its process was killed by signal {number} ({signal.strsignal(number)}){limit}"
