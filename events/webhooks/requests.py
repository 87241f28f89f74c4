"""Webhook requests: the format of events, and the meaning of responses.

Events are CloudEvents 1.0 in structured JSON, one per request or in batches. Requests are signed,
and the policy restricts their destinations like those of HTTP targets. 2xx: the receiver accepted
the events. 410: the receiver is gone. All other failures are retried, including those that only an
operator can fix.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final, Literal, cast

from tenantcron.actor.signatures import SignedRequest
from tenantcron.core.egress import read_url
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.values import JsonValue
from tenantcron.events.cloud_events import (
    MANY_EVENTS,
    ONE_EVENT,
    PREFIX,
    as_bytes,
    as_cloud_event,
)
from tenantcron.store.rows.outbox import Event
from tenantcron.store.rows.webhooks import GONE, Webhook
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.credentials import RequestCredentials, signed, timestamp
from tenantcron.targets.http.secrets import read_secret
from tenantcron.targets.responses import ServiceResponse
from tenantcron.targets.signals import Fail, Retry

# The time limit for the entire response.
LONGEST_CALL: Final = timedelta(seconds=10)
# Limited, because every replica calls each webhook concurrently.
MOST_WEBHOOKS: Final = 16
TEST_TYPE: Final = f"{PREFIX}webhook.test"


class WebhookDeliveryError(TenantcronError):
    """A receiver did not accept a request; the message says why."""


class WebhookGoneError(WebhookDeliveryError):
    """A receiver answered 410 Gone: it will not accept events again."""


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Sends requests to receivers, within the limits of the policy."""

    caller: HttpClient
    # The secrets that the policy allows for signatures.
    allowed_secrets: tuple[str, ...] = ()

    async def send(
        self, webhook: Webhook, tenant: TenantId, events: Sequence[Event], at: datetime
    ) -> None:
        """Send events in one request; raise WebhookDeliveryError if they were not accepted."""
        body, answer = content(webhook, tenant, events), ServiceResponse()
        try:
            async with asyncio.timeout(LONGEST_CALL.total_seconds()):
                proof = await self._prove(webhook, key_of(events), body, at)
                kind = MANY_EVENTS if webhook.in_batches else ONE_EVENT
                await self.caller.post(webhook.url, body, proof, answer, kind)
        except (Retry, Fail) as error:
            raise WebhookDeliveryError(error.reason) from error
        except TimeoutError:
            raise WebhookDeliveryError(
                f"no answer within {LONGEST_CALL.total_seconds():g} s"
            ) from None
        _check(answer.status)

    async def _prove(
        self, webhook: Webhook, key: str, body: bytes, at: datetime
    ) -> RequestCredentials:
        own = {"Idempotency-Key": key}
        if webhook.secret_ref is None:
            return RequestCredentials(own)
        secret = await read_secret(read_ref(webhook.secret_ref), self.allowed_secrets)
        request = SignedRequest(
            method="POST",
            # The caller rejects invalid URLs.
            url=str(read_url(webhook.url) or webhook.url),
            timestamp=timestamp(at),
            key=key,
            body=body,
        )
        proof = signed(secret, request)
        return RequestCredentials({**own, **proof.headers}, proof.hidden)


def read_ref(text: str) -> SecretRef:
    """Read a reference in the notation of policies. The policy checks its format."""
    kind, _, name = text.partition(":")
    return SecretRef(cast("Literal['env', 'file']", kind), name)


def key_of(events: Sequence[Event]) -> str:
    """Return the idempotency key: the event's id, or the first and last id of a batch."""
    first, last = events[0].id, events[-1].id
    return str(first) if first == last else f"{first}:{last}"


def content(webhook: Webhook, tenant: TenantId, events: Sequence[Event]) -> bytes:
    """Return the body of a request, with the same bytes each time the same events are sent."""
    documents = [as_cloud_event(tenant, event) for event in events]
    document: JsonValue = [*documents] if webhook.in_batches else documents[0]
    return as_bytes(document)


def _check(status: int | None) -> None:
    if status is None:
        raise WebhookDeliveryError("no answer")
    if status == HTTPStatus.GONE:
        raise WebhookGoneError(GONE)
    if not 200 <= status < 300:
        raise WebhookDeliveryError(f"the receiver answered {status}")
