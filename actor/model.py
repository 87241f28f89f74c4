"""Actors: those that somebody named, and those that a verified token proves.

They are two types, so that the two never mix. Whatever code constructs is an `Actor`, and that is
attributed: good for a history, never for a permission. An `AuthenticatedActor` can only be built
with the witness, which the verifier of tokens alone may import. It cannot be subclassed, changed
or pickled, so no other way leads to one.
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


class InvalidActorError(TenantcronError):
    """The text cannot name an actor, a user or a source."""


class ActorType(StrEnum):
    """What kind of thing acts."""

    HUMAN = "human"
    SCHEDULER = "scheduler"
    WORKER = "worker"
    MIGRATION = "migration"
    PIPELINE = "pipeline"


@final
@dataclass(frozen=True, slots=True)
class Actor:
    """Who is said to act, and by which door they came (`source`); nobody has proven it."""

    id: str
    type: ActorType
    source: str

    def __post_init__(self) -> None:
        check_id(self.id)
        _check("source of an actor", self.source, LONGEST_SOURCE)

    def __init_subclass__(cls) -> None:
        raise TypeError("Actor cannot be subclassed: a subclass could call itself authenticated")

    @property
    def authenticated(self) -> Literal[False]:
        """Return False: what code can construct proves nothing."""
        return False


@final
@dataclass(frozen=True, slots=True)
class AuthenticatedActor:
    """Who acts, proven by a token; only the verifier builds one."""

    id: str
    type: ActorType
    source: str
    witness: InitVar[Witness]
    _witness: Witness = field(init=False, repr=False, compare=False)

    def __post_init__(self, witness: Witness) -> None:
        if witness is not WITNESS:
            raise TypeError("only the verifier of tokens builds an AuthenticatedActor")
        check_id(self.id)
        _check("source of an actor", self.source, LONGEST_SOURCE)
        object.__setattr__(self, "_witness", witness)

    def __init_subclass__(cls) -> None:
        raise TypeError("AuthenticatedActor cannot be subclassed")

    @property
    def authenticated(self) -> Literal[True]:
        """Return True; an object that was put together without the constructor has no answer."""
        if getattr(self, "_witness", None) is not WITNESS:
            raise TypeError("this AuthenticatedActor was not built by the verifier of tokens")
        return True

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce_ex__(self, _: object) -> NoReturn:
        # A pickle is bytes that anybody can write, so reading one must never prove anything.
        raise TypeError("an AuthenticatedActor cannot be pickled; pass the token and verify it")


AnyActor: TypeAlias = Actor | AuthenticatedActor


def scheduler_actor(service: str, source: str = CRON_SCHEDULER) -> Actor:
    """Return the actor of a scheduler's executions; it is the same for every tenant."""
    if not is_name(service):
        raise InvalidActorError(f"the service {service!r} is not {NAME_EXPECTED}")
    return Actor(f"system:scheduler:{service}", ActorType.SCHEDULER, source)


def migration_actor() -> Actor:
    """Return the actor of changes that a migration makes."""
    return Actor("system:migration", ActorType.MIGRATION, "migrate")


def check_id(text: str) -> None:
    """Refuse what cannot be the id of an actor or a user."""
    _check("id of an actor", text, LONGEST_ID)


def _check(what: str, text: str, longest: int) -> None:
    """Refuse text that a history could not show as it is, or that a column could not hold."""
    if not 1 <= len(text) <= longest:
        raise InvalidActorError(f"the {what} has {len(text)} characters, not 1 to {longest}")
    if not text.isprintable() or text != text.strip():
        raise InvalidActorError(
            f"the {what} {text!r} has characters that are not printable, or spaces around it"
        )
