"""The child: it runs one handler, sends how that ended, and exits."""

import asyncio
import ctypes
import json
import logging
import os
import signal
import socket
import sys
from asyncio import Task
from collections.abc import MutableMapping
from contextlib import suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from types import FrameType
from typing import Final, cast

import structlog

from tenantcron.actor.context import act_from_here
from tenantcron.core.sizes import format_size
from tenantcron.core.standard_logging import route_standard_logging
from tenantcron.core.values import JsonObject
from tenantcron.targets.calls import Raised, call, call_plain
from tenantcron.targets.execution import Cancellation, Execution
from tenantcron.targets.handlers import Handler
from tenantcron.targets.output import collect_from_here
from tenantcron.targets.python.isolation.messages import (
    Failure,
    HandlerEnded,
    LoginRequest,
    LogLine,
    Message,
    MintRequest,
    encode,
    failure_of,
)
from tenantcron.targets.python.isolation.orders import AttemptOrder, decode, execution_of
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.signals import Cancelled
from tenantcron.targets.tokens import TokenError

_PR_SET_PDEATHSIG: Final = 1
# The kernel kills the child before its scheduler when the machine runs out of memory.
_OOM_SCORE: Final = 500
_KIB: Final = 1024


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent exits, and first when out of memory."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    score = Path("/proc/self/oom_score_adj")
    with suppress(OSError):
        score.write_text(str(min(int(score.read_text()) + _OOM_SCORE, 1000)))


def run(connection: socket.socket, handlers: Handlers, level: str) -> None:
    """Run the handler of the scheduler's order."""
    lines = connection.makefile("rb")
    order = decode(lines.readline())
    link = Link(connection, lines)
    _log_to(link, level)
    output = collect_from_here()
    try:
        raised = _attempt(order, handlers, link)
    except BaseException as error:  # noqa: BLE001 -- the scheduler records it in full
        raised = error
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    _lift_memory_limit(order.memory)
    failure = None if raised is None else _failure(raised, order.memory)
    sys.stdout.flush()
    sys.stderr.flush()
    link.send(HandlerEnded(failure, output.result))


def _attempt(order: AttemptOrder, handlers: Handlers, link: "Link") -> Raised:
    cancellation = Cancellation()
    handler = handlers[order.execution["saga_name"]]
    execution = execution_of(order, link, link.login, cancellation)
    act_from_here(execution.actor, execution.id, execution.owner)
    Thread(target=link.listen, name="scheduler", daemon=True).start()
    _limit_memory(order.memory)
    return _call(handler, execution, cancellation)


class Link:
    """The child's end of the socket to the scheduler, which provides tokens and logins."""

    def __init__(self, connection: socket.socket, lines: BufferedReader) -> None:
        self._connection, self._lines = connection, lines
        self._replies: SimpleQueue[dict[str, str]] = SimpleQueue()
        # Threads of the handler log, too; only one of them sends a request at a time.
        self._sending, self._asking = Lock(), Lock()

    def send(self, message: Message) -> None:
        """Send a message; block while the scheduler does not read."""
        with self._sending:
            self._connection.sendall(encode(message))

    def listen(self) -> None:
        """Receive replies until the socket closes: then the scheduler is gone, and the lease."""
        for line in self._lines:
            self._replies.put(json.loads(line))
        os.killpg(0, signal.SIGKILL)

    async def mint(self, audience: str) -> str:
        """Return a new token for the audience."""
        return await asyncio.to_thread(self.mint_plain, audience)

    def mint_plain(self, audience: str) -> str:
        """Return a new token in a plain thread."""
        reply = self._ask(MintRequest(audience))
        if "token" in reply:
            return reply["token"]
        raise TokenError(reply["error"])

    def login(self, *, repair: bool) -> dict[str, str]:
        """Return the login for the database."""
        return self._ask(LoginRequest(repair))

    def _ask(self, request: MintRequest | LoginRequest) -> dict[str, str]:
        with self._asking:
            self.send(request)
            return self._replies.get()


def _log_to(link: Link, level: str) -> None:
    """Send structlog events to the scheduler, which adds the fields of the execution."""

    def send(_: object, level: str, event: MutableMapping[str, object]) -> str:
        text = str(event.pop("event", ""))
        # `encode` converts types that JSON lacks to text.
        link.send(LogLine(level, text, cast("JsonObject", dict(event))))
        raise structlog.DropEvent

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.format_exc_info,
            send,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=True,
    )
    route_standard_logging(logging.getLevelNamesMapping()[level.upper()])


def _call(handler: Handler, execution: Execution, cancellation: Cancellation) -> Raised:
    if handler.is_async:
        return asyncio.run(_in_loop(handler, execution, cancellation))
    signal.signal(signal.SIGUSR1, partial(_raise, cancellation))
    return call_plain(handler, execution)


async def _in_loop(handler: Handler, execution: Execution, cancellation: Cancellation) -> Raised:
    task = cast("Task[Raised]", asyncio.current_task())

    def stop() -> None:
        cancellation.requested = True
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stop)
    return await call(handler, execution)


def _raise(cancellation: Cancellation, _: int, __: FrameType | None) -> None:
    """Interrupt a plain handler once, wherever it is; it may clean up in a `finally` block."""
    if not cancellation.requested:
        cancellation.requested = True
        raise Cancelled("the execution was cancelled, or its time is up")


def _limit_memory(memory: int | None) -> None:
    """Limit the private writable memory that may be allocated from now on.

    Not RLIMIT_AS: address space that threads and libraries only reserve would count.
    """
    if memory is None:
        return
    import resource  # noqa: PLC0415 -- Unix only; the scheduler has checked the platform

    status = Path("/proc/self/status").read_text(encoding="ascii")
    used = next(line for line in status.splitlines() if line.startswith("VmData:"))
    limit = int(used.split()[1]) * _KIB + memory
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _lift_memory_limit(memory: int | None) -> None:
    """Lift the limit: sending the result must work even if the handler used all its memory."""
    if memory is None:
        return
    import resource  # noqa: PLC0415 -- as above

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _failure(raised: BaseException, memory: int | None) -> Failure:
    if isinstance(raised, MemoryError) and memory is not None:
        return failure_of(raised, f"it exceeded its memory limit of {format_size(memory)}")
    return failure_of(raised)
