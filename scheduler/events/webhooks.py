"""Webhooks: what an event looks like on its way, and how one call of a receiver ends.

Events are CloudEvents 1.0 in structured JSON, one a request, or many as a batch. Requests are
signed, and go where the policy lets HTTP targets go. 2xx: taken. 410: the receiver is gone for
good. Everything else may be better next time, also what only an operator can mend.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final, Literal, cast

from tenantcron.actor.signatures import SignedRequest
from tenantcron.core.egress import read_url
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.values import JsonObject
from tenantcron.store.rows.outbox import Event
from tenantcron.store.rows.webhooks import GONE, Webhook
from tenantcron.targets.http import HttpClient, RequestCredentials, signed, timestamp
from tenantcron.targets.responses import ServiceResponse
from tenantcron.targets.signals import Fail, Retry
from tenantcron.targets.signing import read_secret

# However slowly an answer trickles in.
LONGEST_CALL: Final = timedelta(seconds=10)
# Each has calls of its own under way in every replica, so there is an end to them.
MOST_WEBHOOKS: Final = 16
PREFIX: Final = "dev.tenantcron."
EVENT_TYPES: Final = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("execution.succeeded", "execution.dead", "execution.skipped"),
        *("execution.missed", "execution.cancelled"),
        *("schedule.paused", "schedule.resumed", "tenant.changed"),
    )
)
TEST_TYPE: Final = f"{PREFIX}webhook.test"

_ONE: Final = "application/cloudevents+json; charset=utf-8"
_MANY: Final = "application/cloudevents-batch+json; charset=utf-8"


class NotTakenError(TenantcronError):
    """A receiver has not taken what was sent; the text says why."""


class GoneError(NotTakenError):
    """A receiver says that it will never take anything again."""


@dataclass(frozen=True, slots=True)
class Courier:
    """Calls receivers, within what the policy allows."""

    caller: HttpClient
    # Entries of the policy: what may be signed with.
    allowed_secrets: tuple[str, ...] = ()

    async def send(
        self, webhook: Webhook, tenant: TenantId, events: Sequence[Event], at: datetime
    ) -> None:
        """Send events as one request; a `NotTakenError` if they were not taken."""
        body, answer = content(webhook, tenant, events), ServiceResponse()
        try:
            async with asyncio.timeout(LONGEST_CALL.total_seconds()):
                proof = await self._prove(webhook, key_of(events), body, at)
                kind = _MANY if webhook.in_batches else _ONE
                await self.caller.post(webhook.url, body, proof, answer, kind)
        except (Retry, Fail) as error:
            raise NotTakenError(error.reason) from error
        except TimeoutError:
            raise NotTakenError(f"no answer within {LONGEST_CALL.total_seconds():g} s") from None
        _judge(answer.status)

    async def _prove(
        self, webhook: Webhook, key: str, body: bytes, at: datetime
    ) -> RequestCredentials:
        own = {"Idempotency-Key": key}
        if webhook.secret_ref is None:
            return RequestCredentials(own)
        secret = await read_secret(read_ref(webhook.secret_ref), self.allowed_secrets)
        request = SignedRequest(
            method="POST",
            # The caller refuses what is no URL.
            url=str(read_url(webhook.url) or webhook.url),
            timestamp=timestamp(at),
            key=key,
            body=body,
        )
        proof = signed(secret, request)
        return RequestCredentials({**own, **proof.headers}, proof.hidden)


def read_ref(text: str) -> SecretRef:
    """Read a reference as policies write it; whether it is well-formed the policy decides."""
    kind, _, name = text.partition(":")
    return SecretRef(cast("Literal['env', 'file']", kind), name)


def key_of(events: Sequence[Event]) -> str:
    """Return what a request is known by: the event's id, or the first and the last of a batch."""
    first, last = events[0].id, events[-1].id
    return str(first) if first == last else f"{first}:{last}"


def content(webhook: Webhook, tenant: TenantId, events: Sequence[Event]) -> bytes:
    """Return the body of a request: the same bytes whenever the same events are sent."""
    documents = [as_cloud_event(tenant, event) for event in events]
    document = documents if webhook.in_batches else documents[0]
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def as_cloud_event(tenant: TenantId, event: Event) -> JsonObject:
    """Return an event as receivers get it."""
    return {
        "specversion": "1.0",
        "id": str(event.id),
        "source": f"/tenants/{tenant}",
        "type": event.type,
        "subject": event.subject,
        "time": event.happened_at.astimezone(UTC).isoformat(),
        "datacontenttype": "application/json",
        # Numbers as text, of one length: so it is ordered as text is.
        "sequence": f"{event.place:020}",
        "tenant": tenant,
        "data": event.data,
    }


def _judge(status: int | None) -> None:
    if status is None:
        raise NotTakenError("no answer")
    if status == HTTPStatus.GONE:
        raise GoneError(GONE)
    if not 200 <= status < 300:
        raise NotTakenError(f"the receiver answered {status}")
