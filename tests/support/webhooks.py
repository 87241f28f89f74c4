"""Webhooks of a test: their rows, their receivers on loopback, and the received events."""

import json
from asyncio import StreamWriter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from support.calls import egress_to
from support.scheduling import Scheduling
from support.services import Behaviour, Received, Service, answering, service

from tenantcron.core.values import JsonObject
from tenantcron.events.cloud_events import EVENT_TYPES
from tenantcron.events.outbox import Outbox
from tenantcron.events.webhooks.requests import WebhookSender
from tenantcron.store.rows import webhooks
from tenantcron.store.rows.webhooks import Webhook
from tenantcron.targets.http.client import HttpClient

SECRETS = ("env:HOOK_*",)


def events_of(request: Received) -> list[JsonObject]:
    """Return the events of a request, single or batch."""
    document = json.loads(request.body)
    return document if isinstance(document, list) else [document]


def choosing(choose: Callable[[JsonObject], int]) -> Behaviour:
    """Respond to each event with the status that is chosen for it."""

    async def answer(request: Received, writer: StreamWriter) -> None:
        await answering(choose(events_of(request)[0]))(request, writer)

    return answer


@dataclass(slots=True)
class Hooks:
    """A receiver, and replicas that deliver to it."""

    scheduling: Scheduling
    receiver: Service
    callers: list[HttpClient] = field(default_factory=list)

    async def add(self, name: str = "ops", url: str | None = None, **fields: object) -> None:
        """Add a webhook for all events, unless the fields say otherwise."""
        values: dict[str, object] = {
            "url": url or f"{self.receiver.url}/{name}",
            "event_types": EVENT_TYPES,
            "created_by": "maria",
            **fields,
        }
        async with self.scheduling.database.transaction() as connection:
            assert await webhooks.add(connection, Webhook(name=name, **values))  # type: ignore[arg-type] # as given

    def outbox(self, name: str = "one", *ports: int) -> Outbox:
        """Return the outbox of one replica, for the receiver and other ports."""
        egress = egress_to(self.receiver.port)
        caller = HttpClient(egress._replace(ports=(self.receiver.port, *ports)))
        self.callers.append(caller)
        return Outbox(self.scheduling.replica(name).event_delivery, WebhookSender(caller, SECRETS))

    async def deliver(self, outbox: Outbox | None = None) -> list[JsonObject]:
        """Deliver due events; return all events received so far."""
        await (outbox or self.outbox()).deliver_once()
        return self.events()

    def events(self) -> list[JsonObject]:
        """Return the received events, in order."""
        return [event for request in self.receiver.received for event in events_of(request)]

    async def happen(self, *subjects: str, tenant: str = "acme") -> None:
        """Insert events in one transaction, as the triggers do."""
        for subject in subjects:
            await self.scheduling.execute(
                "INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)"
                " VALUES (:tenant, 'dev.tenantcron.tenant.changed', :subject, now(), '{}')",
                tenant=tenant,
                subject=subject,
            )


def subjects(events: Sequence[JsonObject], tenant: str = "acme") -> list[object]:
    """Return the subjects of one tenant's events."""
    return [event["subject"] for event in events if event["tenant"] == tenant]


@asynccontextmanager
async def hooked(scheduling: Scheduling) -> AsyncIterator[Hooks]:
    """Provide a receiver that accepts everything, for the duration of the block."""
    async with service(answering(204)) as receiver:
        hooks = Hooks(scheduling, receiver)
        try:
            yield hooks
        finally:
            for caller in hooks.callers:
                await caller.close()
