"""Who acts here and now, for which user, and as part of what.

Each of the three is a context variable of its own, so that setting one never answers for another.
They follow `await`, tasks and `asyncio.to_thread` by themselves, because Python copies the context
there; plain threads and executors start with an empty one, and `carry` is for those. What is set
in a `with` block holds in that block and in what it starts, and nowhere else.
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
    """Let the actor act inside a `with` block."""
    _check_type(actor)
    return _holding(_actor, actor)


def act_from_here(actor: AnyActor, correlation_id: UUID, user_id: str | None = None) -> None:
    """Let the actor act until the current task or thread ends, as part of what the id says.

    Only in one that does nothing else: there is no way back.
    """
    _check_type(actor)
    _actor.set(actor)
    _correlation_id.set(correlation_id)
    if user_id is not None:
        check_id(user_id)
        _user_id.set(user_id)


def current_actor() -> AnyActor | None:
    """Return who acts, if anybody said so."""
    return _actor.get()


def acting_for_user(user_id: str) -> AbstractContextManager[None]:
    """Let what happens inside a `with` block be for the user; it does not make them the actor."""
    check_id(user_id)
    return _holding(_user_id, user_id)


def current_user_id() -> str | None:
    """Return for which user this happens, if anybody said so."""
    return _user_id.get()


def correlation(correlation_id: UUID) -> AbstractContextManager[None]:
    """Tie together what happens inside a `with` block; an execution uses its own id."""
    return _holding(_correlation_id, correlation_id)


def current_correlation_id() -> UUID | None:
    """Return what this is a part of, if anybody said so."""
    return _correlation_id.get()


def correlation_id_in(context: Context) -> UUID | None:
    """Return what a context is a part of, that of another task for example."""
    return context.get(_correlation_id)


def carry(function: Callable[P, T]) -> Callable[P, T]:
    """Return a plain function that runs in the context of here and now, in whichever thread."""
    captured = copy_context()

    @wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> T:
        # A copy for each call: a context cannot be entered by two threads at once.
        return captured.copy().run(function, *args, **kwargs)

    return carried


def _check_type(actor: AnyActor) -> None:
    # Exact types: something that merely looks like an actor could call itself authenticated.
    if type(actor) not in (Actor, AuthenticatedActor):
        raise TypeError(f"{type(actor).__name__} is not an actor")


@contextmanager
def _holding(variable: ContextVar[T | None], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
