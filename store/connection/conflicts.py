"""Steps that conflict with another transaction are repeated."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from tenantcron.store.connection.errors import ConflictError

T = TypeVar("T")


async def retry_conflicts(step: Callable[[], Awaitable[T]]) -> T:
    """Run a step, and repeat it while it conflicts with another transaction."""
    while True:
        with suppress(ConflictError):
            return await step()
