"""The registry of Python handlers, by saga.

`@saga("name")` registers a function as a handler in this process, and `@authoriser` registers the
function that decides owner checks. `load_handlers` imports the modules that do so. A saga has one
handler: a second one is rejected with both locations, because the order of imports would decide
between them. A second authoriser is rejected, too.
"""

import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Literal, TypeAlias, TypeVar

from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.core.names import NAME_EXPECTED, is_name
from tenantcron.core.requirements import CATCH_ALL
from tenantcron.core.sizes import SMALLEST, SizeError, format_size, parse_size
from tenantcron.targets.authorising import Allowed, AuthorisationRequest, Refused
from tenantcron.targets.handlers import Handler, HandlerFunction, ProcessLimits, SourceLocation
from tenantcron.targets.python.import_errors import import_failure

AuthoriserFunction: TypeAlias = Callable[[AuthorisationRequest], Awaitable[Allowed | Refused]]
F = TypeVar("F", bound=HandlerFunction)
A = TypeVar("A", bound=AuthoriserFunction)


class SagaError(TenantcronError):
    """The function cannot be the handler of that saga."""


@dataclass(frozen=True, slots=True)
class DeclaredAuthoriser:
    """The function that decides whether owners may still run their schedules."""

    function: AuthoriserFunction
    place: SourceLocation

    async def authorise(self, request: AuthorisationRequest) -> Allowed | Refused:
        """Decide on one execution."""
        return await self.function(request)


class Declared:
    """The handlers that modules have declared so far."""

    def __init__(self) -> None:
        self._by_saga: dict[str, Handler] = {}
        self.authoriser: DeclaredAuthoriser | None = None

    def add(self, handler: Handler) -> None:
        """Register a handler; a reload of the same function replaces it."""
        before = self._by_saga.get(handler.saga)
        if before is not None and before.place != handler.place:
            raise SagaError(
                f"saga {handler.saga!r} has two handlers: {before.place} and {handler.place}. "
                "Rename or remove one"
            )
        self._by_saga[handler.saga] = handler

    def decide_by(self, authoriser: DeclaredAuthoriser) -> None:
        """Register the authoriser; a reload of the same function replaces it."""
        before = self.authoriser
        if before is not None and before.place != authoriser.place:
            raise SagaError(
                f"there are two authorisers: {before.place} and {authoriser.place}. Remove one, "
                "or let one call the other"
            )
        self.authoriser = authoriser

    def all(self) -> tuple[Handler, ...]:
        """Return the handlers in the order of their declaration."""
        return tuple(self._by_saga.values())


# The only global state: decorators run during the import and have nowhere else to register.
DECLARED = Declared()


@dataclass(frozen=True, slots=True)
class Handlers:
    """The loaded handlers."""

    by_saga: Mapping[str, Handler]
    authoriser: DeclaredAuthoriser | None = None

    @classmethod
    def of(
        cls, handlers: Iterable[Handler], authoriser: DeclaredAuthoriser | None = None
    ) -> "Handlers":
        """Index handlers by saga."""
        by_saga = {handler.saga: handler for handler in handlers}
        return cls(MappingProxyType(by_saga), authoriser)

    def find(self, saga: str) -> Handler | None:
        """Return the handler of a saga, else the catch-all."""
        return self.by_saga.get(saga, self.catch_all)

    def __getitem__(self, saga: str) -> Handler:
        """Return the handler of a saga, or the catch-all; raise a KeyError if there is neither."""
        return self.by_saga[saga if saga in self.by_saga else CATCH_ALL]

    @property
    def catch_all(self) -> Handler | None:
        """The handler of all sagas without their own handler."""
        return self.by_saga.get(CATCH_ALL)

    @property
    def names(self) -> tuple[str, ...]:
        """The sagas with their own handler."""
        return tuple(name for name in self.by_saga if name != CATCH_ALL)


def saga(
    name: str,
    *,
    isolation: Literal["process"] | None = None,
    memory: str | int | None = None,
) -> Callable[[F], F]:
    """Register a function, async or plain, as the handler of a saga, and return it unchanged.

    The handler of `*` runs every saga without its own handler; `execution.saga_name` is its name.
    With `isolation="process"` each attempt runs in its own process, which can be killed. `memory`
    limits what this process may allocate: "512MiB", or a number of bytes.
    """
    if callable(name):  # a bare @saga receives the function
        raise SagaError('a handler names its saga: write @saga("name")')
    if name != CATCH_ALL and not is_name(name):
        raise SagaError(f"the saga {name!r} is not {NAME_EXPECTED}")

    process = _process(name, isolation, memory)

    def declare(function: F) -> F:
        DECLARED.add(replace(_handler(name, function), process=process))
        return function

    return declare


def authoriser(function: A) -> A:
    """Register an async function that decides owner checks, and return it unchanged."""
    place, is_async = _place(function), inspect.iscoroutinefunction(function)
    if not is_async:
        raise SagaError(f"the authoriser {place} runs in the event loop: use `async def`")
    DECLARED.decide_by(DeclaredAuthoriser(function, place))
    return function


def load_handlers(modules: Sequence[str], folder: Path | None = None) -> Handlers:
    """Import modules by dotted name, from the working folder or from `sys.path`.

    Raises a UsageError if a module is missing, fails, or declares no handler.
    """
    _make_importable(folder or Path.cwd())
    for name in modules:
        _load(name)
    return Handlers.of(DECLARED.all(), DECLARED.authoriser)


def _handler(name: str, function: HandlerFunction) -> Handler:
    place = _place(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SagaError(f"{place} is a generator: calling it would not run it. Remove the `yield`")
    return Handler(name, function, inspect.iscoroutinefunction(function), place)


def _process(name: str, isolation: str | None, memory: str | int | None) -> ProcessLimits | None:
    if isolation is None and memory is None:
        return None
    if isolation != "process":
        given = f"memory={memory!r}" if isolation is None else f"isolation={isolation!r}"
        raise SagaError(f'saga {name!r} has {given}: use isolation="process", or remove it')
    if memory is None:
        return ProcessLimits()
    try:
        size = parse_size(memory) if isinstance(memory, str) else memory
    except SizeError as error:
        raise SagaError(f"the memory of saga {name!r}: {error}") from None
    if size < SMALLEST:
        least = format_size(SMALLEST)
        raise SagaError(f"the memory of saga {name!r} is too small: at least {least}")
    return ProcessLimits(size)


def _place(function: Callable[..., object]) -> SourceLocation:
    original = inspect.unwrap(function)
    code = getattr(original, "__code__", None)
    return SourceLocation(
        module=str(getattr(original, "__module__", "?")),
        function=str(getattr(original, "__qualname__", repr(original))),
        file=code.co_filename if code else "?",
        line=code.co_firstlineno if code else 0,
    )


def _make_importable(folder: Path) -> None:
    """Add the working folder to `sys.path`, as `python -m` does; an installed command does not."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _load(name: str) -> None:
    before = _declared()
    module = _imported(name)
    new = len(_declared()) > len(before)
    if not new and not _declares(module):
        raise UsageError(
            f'the module {name} declares no saga: decorate its handlers with @saga("name")'
        )


def _declared() -> tuple[Handler | DeclaredAuthoriser, ...]:
    authoriser = DECLARED.authoriser
    return DECLARED.all() if authoriser is None else (*DECLARED.all(), authoriser)


def _declares(module: ModuleType) -> bool:
    """Whether a module that was imported earlier has handlers: its own, or imported ones."""
    functions = {id(declared.function) for declared in _declared()}
    return any(
        f"{declared.place.module}.".startswith(f"{module.__name__}.") for declared in _declared()
    ) or any(id(value) in functions for value in vars(module).values())


def _imported(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is not the name of a module{_meant(name)}")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error
        raise UsageError(
            f"there is no module {name}: it is neither in {Path.cwd()} nor installed{_meant(name)}"
        ) from None
    # A module can raise anything while it is imported, and also call sys.exit().
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> UsageError:
    if isinstance(error, SagaError):
        return UsageError(f"the module {name} cannot be imported: {error}")
    return UsageError(import_failure(name, error))


def _meant(name: str) -> str:
    """Suggest the dotted name for a path: `jobs.billing` for `jobs/billing.py`."""
    dotted = name.removeprefix(f".{os.sep}").removesuffix(".py").replace(os.sep, ".")
    if dotted != name and all(part.isidentifier() for part in dotted.split(".")):
        return f": did you mean {dotted}?"
    return ""
