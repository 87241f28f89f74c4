"""Webhooks as JSON; the keys are stable."""

from collections.abc import Mapping, Sequence

from tenantcron.core.egress import read_url
from tenantcron.service.responses.executions import iso
from tenantcron.service.responses.platform_shapes import WebhookList, WebhookResponse
from tenantcron.store.rows.outbox import WebhookBacklog
from tenantcron.store.rows.webhooks import Webhook


def webhook_as_json(row: Webhook, backlog: WebhookBacklog | None = None) -> WebhookResponse:
    """Return a webhook. Of its URL only the origin: a path or a query may contain a secret."""
    url = read_url(row.url)
    return {
        "name": row.name,
        "calls": url.origin if url else None,
        "events": list(row.event_types),
        "tenants": None if row.tenants is None else list(row.tenants),
        "secret": row.secret_ref,
        "batch": row.in_batches,
        "created_by": row.created_by,
        "created_at": iso(row.created_at),
        "disabled_at": iso(row.disabled_at),
        "disabled_reason": row.disabled_reason,
        "waiting_since": iso(backlog.oldest) if backlog else None,
        "tenants_waiting": backlog.lanes if backlog else 0,
        "error": backlog.error if backlog else None,
        "dropped": row.dropped,
    }


def webhooks_as_json(
    rows: Sequence[Webhook], backlogs: Mapping[str, WebhookBacklog]
) -> WebhookList:
    """Return all webhooks with their undelivered events."""
    return {"webhooks": [webhook_as_json(row, backlogs.get(row.name)) for row in rows]}
