"""The JSON form of events, the same for webhooks and event buses: CloudEvents 1.0."""

import json
from datetime import UTC
from typing import Final

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.schedules.execution_reasons import reason_text
from tenantcron.store.rows.outbox import Event

PREFIX: Final = "dev.tenantcron."
EVENT_TYPES: Final = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("execution.succeeded", "execution.dead", "execution.skipped"),
        *("execution.missed", "execution.cancelled"),
        *("schedule.paused", "schedule.resumed", "tenant.changed"),
    )
)
ONE_EVENT: Final = "application/cloudevents+json; charset=utf-8"
MANY_EVENTS: Final = "application/cloudevents-batch+json; charset=utf-8"


def as_cloud_event(tenant: TenantId, event: Event) -> JsonObject:
    """Return an event as a CloudEvent."""
    return {
        "specversion": "1.0",
        "id": str(event.id),
        "source": f"/tenants/{tenant}",
        "type": event.type,
        "subject": event.subject,
        "time": event.happened_at.astimezone(UTC).isoformat(),
        "datacontenttype": "application/json",
        # Padded, so that sorting as text sorts by number.
        "sequence": f"{event.place:020}",
        "tenant": tenant,
        "data": _in_words(event.data),
    }


def as_bytes(document: JsonValue) -> bytes:
    """Return JSON, with the same bytes each time the same events are sent."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _in_words(data: JsonObject) -> JsonObject:
    """Return the data of an event with its reason as a sentence."""
    match data:
        case {"reason_code": str(code), "reason": str() | None as detail}:
            return {**data, "reason": reason_text(code, detail)}
        case _:
            return data
