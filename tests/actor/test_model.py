"""Actors are immutable values with printable ids."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from tenantcron.actor.model import (
    CATCH_UP,
    Actor,
    ActorType,
    InvalidActorError,
    migration_actor,
    scheduler_actor,
)

ADA = Actor("ada", ActorType.HUMAN, "cli")


def test_the_types_of_actors() -> None:
    assert [actor_type.value for actor_type in ActorType] == [
        "human",
        "scheduler",
        "worker",
        "migration",
        "pipeline",
    ]


@pytest.mark.parametrize("name", ["id", "type", "source", "authenticated", "anything"])
def test_an_actor_cannot_be_changed(name: str) -> None:
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        setattr(ADA, name, True)
    assert Actor("ada", ActorType.HUMAN, "cli") == ADA


@pytest.mark.parametrize(
    "actor",
    [
        ADA,
        replace(ADA, id="grace"),
        copy.deepcopy(ADA),
        pickle.loads(pickle.dumps(ADA)),  # noqa: S301 -- bytes of this test
        scheduler_actor("billing"),
        migration_actor(),
        *(Actor("x", kind, "test") for kind in ActorType),
    ],
)
def test_a_constructed_actor_is_not_authenticated(actor: Actor) -> None:
    assert actor.authenticated is False


def test_authenticated_cannot_be_passed() -> None:
    with pytest.raises(TypeError, match="authenticated"):
        Actor("ada", ActorType.HUMAN, "cli", authenticated=True)  # type: ignore[call-arg] # this is the error
    with pytest.raises(TypeError, match="authenticated"):
        replace(ADA, authenticated=True)  # type: ignore[call-arg] # as above


def test_an_actor_cannot_be_subclassed() -> None:
    with pytest.raises(TypeError, match="cannot be subclassed"):
        type("Forged", (Actor,), {"authenticated": True})


def test_the_actor_of_a_scheduler_has_the_service_and_no_tenant() -> None:
    assert scheduler_actor("billing") == Actor(
        "system:scheduler:billing", ActorType.SCHEDULER, "cron-scheduler"
    )
    assert scheduler_actor("billing", CATCH_UP).source == "catch-up"


@pytest.mark.parametrize("service", ["", "billing:acme", "Billing", "a b", "x" * 129, "a\n"])
def test_a_service_must_be_a_name(service: str) -> None:
    with pytest.raises(InvalidActorError, match="service"):
        scheduler_actor(service)


def test_migrations_have_their_own_actor() -> None:
    assert migration_actor() == Actor("system:migration", ActorType.MIGRATION, "migrate")


@dataclass(frozen=True, slots=True)
class Text:
    """A text, and whether it is valid as an id and as a source."""

    text: str
    as_id: bool
    as_source: bool


TEXTS = {
    "one letter": Text("a", as_id=True, as_source=True),
    "inner space": Text("Ada Lovelace", as_id=True, as_source=True),
    "other scripts": Text("Ада-愛", as_id=True, as_source=True),
    "longest source": Text("x" * 64, as_id=True, as_source=True),
    "too long for a source": Text("x" * 65, as_id=True, as_source=False),
    "longest id": Text("x" * 255, as_id=True, as_source=False),
    "too long for an id": Text("x" * 256, as_id=False, as_source=False),
    "empty": Text("", as_id=False, as_source=False),
    "blank": Text(" ", as_id=False, as_source=False),
    "space around": Text(" ada", as_id=False, as_source=False),
    "line break": Text("ada\nroot", as_id=False, as_source=False),
    "null": Text("ada\0", as_id=False, as_source=False),
    "terminal escape": Text("\x1b[31mada", as_id=False, as_source=False),
    "delete": Text("ada\x7f", as_id=False, as_source=False),
    "text direction": Text("ada\u202eroot", as_id=False, as_source=False),
    "half of a character": Text("ada\udc80", as_id=False, as_source=False),
}


@pytest.mark.parametrize("case", TEXTS.values(), ids=TEXTS)
def test_ids_have_1_to_255_printable_characters_and_sources_1_to_64(case: Text) -> None:
    assert accepted(case.text, "test") is case.as_id
    assert accepted("ada", case.text) is case.as_source


def accepted(actor_id: str, source: str) -> bool:
    try:
        Actor(actor_id, ActorType.HUMAN, source)
    except InvalidActorError:
        return False
    return True
