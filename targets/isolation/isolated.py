"""A handler in a process of its own, as the executor sees it: an async function.

Stopping it is cancelling that function, as for every async handler. It ends the child before it
ends itself, so no attempt leaves a process behind.
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
from tenantcron.targets.isolation.forkserver import Child, Forkserver, reason
from tenantcron.targets.isolation.messages import (
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
from tenantcron.targets.isolation.orders import PortableTransactions, encode, order_of
from tenantcron.targets.output import keep_encoded_result
from tenantcron.targets.registry import Handler, Handlers
from tenantcron.targets.tokens import TokenError

log: FilteringBoundLogger = structlog.get_logger()

# Seconds for a handler to clean up; less than the executor's, which gives up on a handler then.
GRACE: Final = 4.0


def wants_processes(handlers: Handlers) -> bool:
    """Whether any handler runs in a process of its own."""
    return any(handler.process is not None for handler in handlers.by_saga.values())


def isolate(handlers: Handlers, forkserver: Forkserver) -> Handlers:
    """Start the fork server, and return the handlers with those isolated that want it."""
    wanted = [handler for handler in handlers.by_saga.values() if handler.process is not None]
    _check_platform(wanted)
    _check_found(wanted, forkserver.start())
    isolated = {handler.saga: _isolated(handler, forkserver) for handler in wanted}
    return replace(handlers, by_saga={**handlers.by_saga, **isolated})


def _check_platform(wanted: list[Handler]) -> None:
    limited = [handler.saga for handler in wanted if handler.process and handler.process.memory]
    if limited and sys.platform != "linux":
        raise UsageError(
            f"the memory limit of saga {limited[0]!r} cannot be set on this system, only on "
            "Linux: leave `memory` out"
        )


def _check_found(wanted: list[Handler], found: frozenset[str]) -> None:
    """A handler that exists in this process only (declared in `__main__`) cannot be isolated."""
    for handler in wanted:
        if handler.saga not in found:
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
        ended = await _talk(child, execution)
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
    """Let the handler clean up, unless another attempt may be running; then kill it."""
    ended = None
    if not execution._cancellation.closed:
        child.signal(signal.SIGUSR1)
        try:
            # Not `asyncio.timeout`: before Python 3.11.3 it ends as a cancellation, and not as a
            # timeout, in a task that is being cancelled.
            ended = await asyncio.wait_for(_talk(child, execution), GRACE)
        except TimeoutError:
            log.warning("process_killed", grace=GRACE)
    child.signal(signal.SIGKILL)
    await child.ending
    return ended


async def _talk(child: Child, execution: Execution) -> HandlerEnded | None:
    """Take what the child sends until it has ended; None: it is gone without a word."""
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
        await _take(message, child, execution)


async def _take(message: Message, child: Child, execution: Execution) -> None:
    if isinstance(message, LogLine):
        level = logging.getLevelNamesMapping().get(message.level.upper(), logging.INFO)
        log.log(level, message.event, **message.fields)
        return
    if isinstance(message, MintRequest):
        answer = await _token(message, execution)
    elif isinstance(message, LoginRequest):
        answer = await _login(message, execution)
    else:
        return
    child.writer.write(json.dumps(answer).encode() + b"\n")


async def _token(request: MintRequest, execution: Execution) -> dict[str, str]:
    try:
        return {"token": await execution.token(request.audience)}
    except TokenError as error:
        return {"error": str(error)}


async def _login(request: LoginRequest, execution: Execution) -> dict[str, str]:
    transactions = execution._transactions
    if not isinstance(transactions, PortableTransactions):
        return {"error": "this execution was given no transactions"}
    return await transactions.login(repair=request.repair)
