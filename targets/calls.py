"""The call of a handler: in a task of the event loop, or in a thread of its own.

Whatever a handler does comes back as a value. A `SystemExit` or `KeyboardInterrupt` that gets out
of a task or a thread would end the scheduler, and with it everybody else's executions.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from threading import Thread
from typing import cast

from tenantcron.targets.execution import Execution
from tenantcron.targets.output import keep_result
from tenantcron.targets.registry import Handler
from tenantcron.targets.signals import Fail

# What the handler raised, None if nothing.
Raised = BaseException | None


async def call(handler: Handler, execution: Execution) -> Raised:
    """Run an async handler to its end."""
    try:
        keep_result(await cast("Awaitable[object]", handler.function(execution)))
    except BaseException as error:  # noqa: BLE001 -- the caller records it in full
        return error
    return None


def call_plain(handler: Handler, execution: Execution) -> Raised:
    """Run a plain handler to its end."""
    try:
        result = handler.function(execution)
        _refuse_awaitable(handler, result)
        keep_result(result)
    except BaseException as error:  # noqa: BLE001 -- the caller records it in full
        return error
    return None


def start_thread(name: str, body: Callable[[], None]) -> None:
    """Run the body in a daemon thread, in a copy of the context of here and now.

    A thread for each: in a pool, one that does not end would hold a place for ever. A daemon: it
    must not keep the process alive that wants to leave.
    """
    context = copy_context()
    Thread(target=context.run, args=(body,), name=name, daemon=True).start()


def _refuse_awaitable(handler: Handler, result: object) -> None:
    """An async function behind a plain decorator would count as done without having run."""
    if not inspect.isawaitable(result):
        return
    if inspect.iscoroutine(result):
        result.close()
    raise Fail(
        f"{handler.place} is a plain function that returned something to await: "
        "declare it with `async def`, also inside its decorators"
    )
