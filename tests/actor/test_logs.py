"""Events get the actor from the context."""

from uuid import UUID

import structlog

from tenantcron.actor.context import acting_as, acting_for_user, correlation
from tenantcron.actor.logs import add_actor
from tenantcron.actor.model import scheduler_actor


def logged(**fields: object) -> structlog.typing.EventDict:
    """Return the event after the processor."""
    capture = structlog.testing.LogCapture()
    log = structlog.wrap_logger(None, processors=[add_actor, capture])
    log.info("fired", **fields)
    return capture.entries[0]


def test_an_event_has_the_actor_and_the_correlation_id() -> None:
    with acting_as(scheduler_actor("billing")), correlation(UUID(int=1)):
        event = logged(tenant="acme")
    assert event == {
        "event": "fired",
        "log_level": "info",
        "tenant": "acme",
        "actor": "system:scheduler:billing",
        "correlation_id": str(UUID(int=1)),
    }


def test_an_event_names_the_user_when_there_is_no_actor() -> None:
    with acting_for_user("u-1"):
        assert logged()["actor"] == "u-1"


def test_an_event_without_a_context_gets_no_fields() -> None:
    assert logged() == {"event": "fired", "log_level": "info"}


def test_fields_of_the_event_are_not_overwritten() -> None:
    with acting_as(scheduler_actor("billing")):
        assert logged(actor="ada")["actor"] == "ada"
