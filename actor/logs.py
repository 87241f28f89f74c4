"""A structlog processor that adds the actor and the correlation id to every event."""

from collections.abc import MutableMapping

from tenantcron.actor.attribution import attribution


def add_actor(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Add `actor` and `correlation_id` if they are known and the event does not set them."""
    who = attribution()
    if who.actor is not None:
        event.setdefault("actor", who.changed_by)
    if who.correlation_id is not None:
        event.setdefault("correlation_id", str(who.correlation_id))
    return event
