"""Calls of handlers: in a task of the event loop, or in their own thread.

Every exception is returned as a value. A `SystemExit` or `KeyboardInterrupt` that escapes a task or
a thread would end the scheduler, and with it the executions of all tenants.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from threading import Thread
from typing import cast

from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler
from tenantcron.targets.output import keep_result
from tenantcron.targets.signals import Fail

# The exception of the handler, None if it returned.
Raised = BaseException | None


async def call(handler: Handler, execution: Execution) -> Raised:
    """Run an async handler."""
    try:
        keep_result(await cast("Awaitable[object]", handler.function(execution)))
    except BaseException as error:  # noqa: BLE001 -- the caller records it in full
        return error
    return None


def call_plain(handler: Handler, execution: Execution) -> Raised:
    """Run a plain handler."""
    try:
        result = handler.function(execution)
        _refuse_awaitable(handler, result)
        keep_result(result)
    except BaseException as error:  # noqa: BLE001 -- the caller records it in full
        return error
    return None


def start_thread(name: str, body: Callable[[], None]) -> None:
    """Run the body in a new daemon thread, in a copy of the current context.

    Not in a pool: a call that never returns would occupy a worker for ever. A daemon thread does
    not keep the process from exiting.
    """
    context = copy_context()
    Thread(target=context.run, args=(body,), name=name, daemon=True).start()


def _refuse_awaitable(handler: Handler, result: object) -> None:
    """Reject an async function behind a plain decorator: it would count as done without running."""
    if not inspect.isawaitable(result):
        return
    if inspect.iscoroutine(result):
        result.close()
    raise Fail(
        f"{handler.place} is a plain function that returned an awaitable: "
        "declare it with `async def`, also inside its decorators"
    )
