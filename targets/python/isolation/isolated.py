"""An isolated handler as the executor sees it: an async function.

Cancelling the function stops the handler, like any async handler. The function stops the child
before it returns, so no attempt leaves a process behind.
"""

import asyncio
import json
import logging
import signal
import sys
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from tenantcron.core.errors import UsageError
from tenantcron.core.sizes import format_size
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler
from tenantcron.targets.output import keep_encoded_result
from tenantcron.targets.python.isolation.forkserver import Child, Forkserver, reason
from tenantcron.targets.python.isolation.messages import (
    Failure,
    FailureKind,
    HandlerEnded,
    LoginRequest,
    LogLine,
    Message,
    MintRequest,
    RemoteError,
    decode,
)
from tenantcron.targets.python.isolation.orders import PortableTransactions, encode, order_of
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.tokens import TokenError

log: FilteringBoundLogger = structlog.get_logger()

# Seconds for a handler to clean up; less than the executor waits before it abandons a handler.
GRACE: Final = 4.0


def wants_processes(handlers: Handlers) -> bool:
    """Whether any handler runs in its own process."""
    return any(handler.process is not None for handler in handlers.by_saga.values())


def isolate(handlers: Handlers, forkserver: Forkserver) -> Handlers:
    """Start the fork server, and return the handlers with the isolated ones replaced."""
    to_isolate = [handler for handler in handlers.by_saga.values() if handler.process is not None]
    _check_platform(to_isolate)
    _check_loaded(to_isolate, forkserver.start())
    isolated = {handler.saga: _isolated(handler, forkserver) for handler in to_isolate}
    return replace(handlers, by_saga={**handlers.by_saga, **isolated})


def _check_platform(handlers: list[Handler]) -> None:
    limited = [handler.saga for handler in handlers if handler.process and handler.process.memory]
    if limited and sys.platform != "linux":
        raise UsageError(
            f"the memory limit of saga {limited[0]!r} is only supported on Linux: remove `memory`"
        )


def _check_loaded(handlers: list[Handler], loaded: frozenset[str]) -> None:
    """Reject handlers that the fork server lacks, such as those declared in `__main__`."""
    for handler in handlers:
        if handler.saga not in loaded:
            raise UsageError(
                f'saga {handler.saga!r} has isolation="process", and importing the modules of '
                f"--handlers does not declare it: {handler.place}. Declare it at the top level "
                "of such a module"
            )


def _isolated(handler: Handler, forkserver: Forkserver) -> Handler:
    run = partial(_run, handler, forkserver)
    return replace(handler, function=run, is_async=True)


async def _run(handler: Handler, forkserver: Forkserver, execution: Execution) -> None:
    memory = handler.process.memory if handler.process is not None else None
    try:
        child = await forkserver.fork()
    except OSError as error:
        raise _failed(f"no process could be started for it: {error}") from error
    execution._cancellation.on_close = partial(child.signal, signal.SIGKILL)
    try:
        child.writer.write(encode(order_of(execution, memory)))
        ended = await _receive(child, execution)
        _raise_failure(ended)
        if ended is None:
            shown = None if memory is None else format_size(memory)
            raise _failed(reason(await child.ending, shown))
        if ended.result is not None:
            keep_encoded_result(ended.result)
    except asyncio.CancelledError:
        _raise_failure(await _stop(child, execution))
        raise
    finally:
        execution._cancellation.on_close = None
        child.signal(signal.SIGKILL)
        child.writer.close()


def _failed(text: str) -> RemoteError:
    return RemoteError(Failure(FailureKind.ERROR, text))


def _raise_failure(ended: HandlerEnded | None) -> None:
    if ended is not None and ended.failure is not None:
        raise RemoteError(ended.failure)


async def _stop(child: Child, execution: Execution) -> HandlerEnded | None:
    """Let the handler clean up, unless another attempt may be running; then kill the child."""
    ended = None
    if not execution._cancellation.closed:
        child.signal(signal.SIGUSR1)
        try:
            # Not `asyncio.timeout`: before Python 3.11.3 it raises a cancellation instead of a
            # timeout in a task that is being cancelled.
            ended = await asyncio.wait_for(_receive(child, execution), GRACE)
        except TimeoutError:
            log.warning("process_killed", grace=GRACE)
    child.signal(signal.SIGKILL)
    await child.ending
    return ended


async def _receive(child: Child, execution: Execution) -> HandlerEnded | None:
    """Process messages until the handler ends; None if the child exits without a result."""
    while True:
        try:
            line = await child.reader.readline()
        except ConnectionError:
            return None
        if not line.endswith(b"\n"):
            return None
        message = decode(line)
        if isinstance(message, HandlerEnded):
            return message
        await _process(message, child, execution)


async def _process(message: Message, child: Child, execution: Execution) -> None:
    if isinstance(message, LogLine):
        level = logging.getLevelNamesMapping().get(message.level.upper(), logging.INFO)
        log.log(level, message.event, **message.fields)
        return
    if isinstance(message, MintRequest):
        reply = await _token(message, execution)
    elif isinstance(message, LoginRequest):
        reply = await _login(message, execution)
    else:
        return
    child.writer.write(json.dumps(reply).encode() + b"\n")


async def _token(request: MintRequest, execution: Execution) -> dict[str, str]:
    try:
        return {"token": await execution.token(request.audience)}
    except TokenError as error:
        return {"error": str(error)}


async def _login(request: LoginRequest, execution: Execution) -> dict[str, str]:
    transactions = execution._transactions
    if not isinstance(transactions, PortableTransactions):
        return {"error": "this execution has no transactions"}
    return await transactions.login(repair=request.repair)
