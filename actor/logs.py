"""A structlog processor that says in every event who acts and as part of what."""

from collections.abc import MutableMapping

from tenantcron.actor.attribution import attribution


def add_actor(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Add `actor` and `correlation_id` where they are known; what the event says itself stays."""
    who = attribution()
    if who.actor is not None:
        event.setdefault("actor", who.changed_by)
    if who.correlation_id is not None:
        event.setdefault("correlation_id", str(who.correlation_id))
    return event
