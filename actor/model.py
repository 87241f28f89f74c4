"""Actors: attributed ones, and ones that a verified token authenticates.

They are two types, so that they never mix. Any code can construct an `Actor`: it is good for a
history, never for a permission. Only code with the witness can construct an `AuthenticatedActor`,
and only the verifiers of tokens may import the witness. An `AuthenticatedActor` cannot be
subclassed, changed or pickled, so there is no other way to get one.
"""

from dataclasses import InitVar, dataclass, field
from enum import StrEnum
from typing import Final, Literal, NoReturn, Self, TypeAlias, final

from tenantcron.actor.witness import WITNESS, Witness
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import NAME_EXPECTED, is_name

LONGEST_ID: Final = 255
LONGEST_SOURCE: Final = 64

CRON_SCHEDULER: Final = "cron-scheduler"
CATCH_UP: Final = "catch-up"
MANUAL: Final = "manual"
TASK: Final = "task"


class InvalidActorError(TenantcronError):
    """The text cannot name an actor, a user or a source."""


class ActorType(StrEnum):
    """The kind of actor."""

    HUMAN = "human"
    SCHEDULER = "scheduler"
    WORKER = "worker"
    MIGRATION = "migration"
    PIPELINE = "pipeline"


@final
@dataclass(frozen=True, slots=True)
class Actor:
    """An attributed actor and its `source`, such as `cli`; it is not authenticated."""

    id: str
    type: ActorType
    source: str

    def __post_init__(self) -> None:
        check_id(self.id)
        _check("source of an actor", self.source, LONGEST_SOURCE)

    def __init_subclass__(cls) -> None:
        raise TypeError("Actor cannot be subclassed: a subclass could claim to be authenticated")

    @property
    def authenticated(self) -> Literal[False]:
        """Return False: any code can construct it."""
        return False


@final
@dataclass(frozen=True, slots=True)
class AuthenticatedActor:
    """An actor that a token authenticates; only a verifier of tokens constructs one."""

    id: str
    type: ActorType
    source: str
    witness: InitVar[Witness]
    _witness: Witness = field(init=False, repr=False, compare=False)

    def __post_init__(self, witness: Witness) -> None:
        if witness is not WITNESS:
            raise TypeError("only a verifier of tokens constructs an AuthenticatedActor")
        check_id(self.id)
        _check("source of an actor", self.source, LONGEST_SOURCE)
        object.__setattr__(self, "_witness", witness)

    def __init_subclass__(cls) -> None:
        raise TypeError("AuthenticatedActor cannot be subclassed")

    @property
    def authenticated(self) -> Literal[True]:
        """Return True; raise if the object was created without the constructor."""
        if getattr(self, "_witness", None) is not WITNESS:
            raise TypeError("this AuthenticatedActor was not constructed by a verifier of tokens")
        return True

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce_ex__(self, _: object) -> NoReturn:
        # Any code can write a pickle, so loading one must never authenticate an actor.
        raise TypeError("an AuthenticatedActor cannot be pickled; pass the token and verify it")


AnyActor: TypeAlias = Actor | AuthenticatedActor


def scheduler_actor(service: str, source: str = CRON_SCHEDULER) -> Actor:
    """Return the actor of a scheduler's executions, the same for every tenant."""
    if not is_name(service):
        raise InvalidActorError(f"the service {service!r} is not {NAME_EXPECTED}")
    return Actor(f"system:scheduler:{service}", ActorType.SCHEDULER, source)


def migration_actor() -> Actor:
    """Return the actor of changes that a migration makes."""
    return Actor("system:migration", ActorType.MIGRATION, "migrate")


def check_id(text: str) -> None:
    """Raise an InvalidActorError if the text cannot be the id of an actor or a user."""
    _check("id of an actor", text, LONGEST_ID)


def _check(what: str, text: str, longest: int) -> None:
    """Reject text that a history cannot display or a column cannot store."""
    if not 1 <= len(text) <= longest:
        raise InvalidActorError(f"the {what} has {len(text)} characters, not 1 to {longest}")
    if not text.isprintable() or text != text.strip():
        raise InvalidActorError(
            f"the {what} {text!r} has characters that are not printable, or spaces around it"
        )
