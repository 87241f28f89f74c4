"""The function that runs an attempt: a Python handler, or the call of a target."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tenantcron.targets.execution import Execution

# It may return a small JSON value, or an awaitable of one.
HandlerFunction: TypeAlias = Callable[[Execution], object]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where a handler is defined."""

    module: str
    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}.{self.function} ({self.file}:{self.line})"


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The limits of a handler that runs in its own process."""

    # Bytes that it may allocate in addition to its imported modules; None: no limit.
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Handler:
    """The function that runs a saga; a plain function runs in a thread."""

    saga: str
    function: HandlerFunction
    is_async: bool
    place: SourceLocation
    # None: it runs in the scheduler's own process.
    process: ProcessLimits | None = None
