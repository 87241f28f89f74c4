"""The fork server: a process that has imported the handlers and forks a child for each attempt.

It reads requests from its socket, one JSON document per line: `{"fork": 1}`, with the child's end
of a socket attached, and `{"signal": 10, "of": 1}`. It reports how children exited: `{"of": 1,
"status": -9}`. When its socket closes, the scheduler is gone: it kills its children and exits.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn, TypedDict

from tenantcron.core.errors import UsageError
from tenantcron.targets.python.isolation import child
from tenantcron.targets.python.isolation.orders import import_all
from tenantcron.targets.python.registry import Handlers, load_handlers

# Signals that a terminal or a supervisor sends to a process group; the scheduler decides.
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_CHUNK: Final = 1 << 16
_MOST_DESCRIPTORS: Final = 200


class Configuration(TypedDict):
    """The first message of the scheduler."""

    path: list[str]
    handlers: list[str]
    # Other modules that children need, imported here once.
    modules: list[str]
    level: str


class ForkServerRequest(TypedDict, total=False):
    """A request of the scheduler."""

    fork: int
    signal: int
    of: int


def main() -> None:
    """Serve until the scheduler is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for number in (*_IGNORED, signal.SIGUSR1):
        # Not SIG_IGN, which programs started by a handler would inherit.
        signal.signal(number, _ignore)
    configuration: Configuration = json.loads(control.makefile("rb").readline())
    sys.path[:] = configuration["path"]
    try:
        handlers = load_handlers(configuration["handlers"])
    except UsageError as error:
        _send(control, {"failed": str(error)})
        return
    import_all(configuration["modules"])
    # Exclude the current objects from garbage collection, so their pages stay shared with children.
    gc.collect()
    gc.freeze()
    _send(control, {"ready": list(handlers.by_saga)})
    _Server(control, handlers, configuration["level"]).serve()


def _ignore(_: int, __: FrameType | None) -> None:
    """Do nothing."""


def _send(control: socket.socket, document: dict[str, object]) -> None:
    # If the scheduler is gone, the next read detects it.
    with suppress(OSError):
        control.sendall(json.dumps(document).encode() + b"\n")


class _Server:
    """Forks, signals and reaps children."""

    def __init__(self, control: socket.socket, handlers: Handlers, level: str) -> None:
        self._control, self._handlers, self._level = control, handlers, level
        self._pids: dict[int, int] = {}
        self._rest = b""
        # Descriptors that arrived with requests, in order.
        self._descriptors: list[int] = []
        self._ends, self._signalled = os.pipe()
        for end in (self._ends, self._signalled):
            os.set_blocking(end, False)

    def serve(self) -> None:
        """Process requests until the socket closes."""
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        while True:
            control, ends = self._control.fileno(), self._ends
            readable, _, _ = select.select([control, ends], [], [])
            if ends in readable:
                os.read(ends, _CHUNK)
                self._reap()
            if control in readable and not self._read():
                break
        for number in tuple(self._pids):
            self._signal(number, signal.SIGKILL)

    def _read(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, _CHUNK, _MOST_DESCRIPTORS)
        if not data:
            return False
        self._descriptors += descriptors
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._process(json.loads(line))
        return True

    def _process(self, request: ForkServerRequest) -> None:
        if "fork" in request:
            self._fork(request["fork"], self._descriptors.pop(0))
        else:
            self._signal(request["of"], request["signal"])

    def _fork(self, number: int, descriptor: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # the process limit is reached
            os.close(descriptor)
            _send(self._control, {"of": number, "error": error.strerror})
            return
        if not pid:
            self._become_child(descriptor, parent)
        os.close(descriptor)
        self._pids[number] = pid

    def _become_child(self, descriptor: int, parent: int) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (self._ends, self._signalled, self._control.detach()):
                os.close(end)
            os.setsid()
            child.die_with(parent)
            child.run(socket.socket(fileno=descriptor), self._handlers, self._level)
            status = 0
        finally:
            # Skip Python's shutdown, which would wait for threads of the handler.
            os._exit(status)

    def _signal(self, number: int, which: int) -> None:
        pid = self._pids.get(number)
        if pid is None:
            return  # it has exited, and another process may have its id
        # A new child may not lead its group yet.
        with suppress(ProcessLookupError):
            os.kill(pid, which)
        if which == signal.SIGKILL:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, which)

    def _reap(self) -> None:
        for number, pid in tuple(self._pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self._pids[number]
            # Kill processes that the handler started and left running.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(status)
            _send(self._control, {"of": number, "status": code})


if __name__ == "__main__":
    main()
