"""The current actor, the user it acts for, and the correlation id.

Each has its own context variable, so setting one does not affect the others. Python copies the
context for `await`, tasks and `asyncio.to_thread`. Plain threads and executors start with an empty
context; use `carry` for those. A value set by a `with` block is visible in that block and in the
tasks that it starts, and nowhere else.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import wraps
from typing import Final, ParamSpec, TypeVar
from uuid import UUID

from tenantcron.actor.model import Actor, AnyActor, AuthenticatedActor, check_id

P = ParamSpec("P")
T = TypeVar("T")

_actor: Final[ContextVar[AnyActor | None]] = ContextVar("tenantcron_actor", default=None)
_user_id: Final[ContextVar[str | None]] = ContextVar("tenantcron_user_id", default=None)
_correlation_id: Final[ContextVar[UUID | None]] = ContextVar(
    "tenantcron_correlation_id", default=None
)


def acting_as(actor: AnyActor) -> AbstractContextManager[None]:
    """Set the actor for a `with` block."""
    _check_type(actor)
    return _holding(_actor, actor)


def act_from_here(actor: AnyActor, correlation_id: UUID, user_id: str | None = None) -> None:
    """Set the actor and the correlation id until the current task or thread ends.

    Use it only in a dedicated task or thread: it cannot be undone.
    """
    _check_type(actor)
    _actor.set(actor)
    _correlation_id.set(correlation_id)
    if user_id is not None:
        check_id(user_id)
        _user_id.set(user_id)


def current_actor() -> AnyActor | None:
    """Return the current actor, if one is set."""
    return _actor.get()


def acting_for_user(user_id: str) -> AbstractContextManager[None]:
    """Set the user that a `with` block acts for; it does not make them the actor."""
    check_id(user_id)
    return _holding(_user_id, user_id)


def current_user_id() -> str | None:
    """Return the current user, if one is set."""
    return _user_id.get()


def correlation(correlation_id: UUID) -> AbstractContextManager[None]:
    """Set the correlation id for a `with` block; an execution uses its own id."""
    return _holding(_correlation_id, correlation_id)


def current_correlation_id() -> UUID | None:
    """Return the current correlation id, if one is set."""
    return _correlation_id.get()


def correlation_id_in(context: Context) -> UUID | None:
    """Return the correlation id of a context, such as that of another task."""
    return context.get(_correlation_id)


def carry(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that runs in the current context, in any thread."""
    captured = copy_context()

    @wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> T:
        # A copy per call: two threads cannot enter the same context at once.
        return captured.copy().run(function, *args, **kwargs)

    return carried


def _check_type(actor: AnyActor) -> None:
    # Exact types: an object that only looks like an actor could claim to be authenticated.
    if type(actor) not in (Actor, AuthenticatedActor):
        raise TypeError(f"{type(actor).__name__} is not an actor")


@contextmanager
def _holding(variable: ContextVar[T | None], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
