"""Webhooks: add, test, enable, disable, remove and list them."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from tenantcron.actor.attribution import Attribution
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.events.webhooks.requests import (
    MOST_WEBHOOKS,
    TEST_TYPE,
    WebhookDeliveryError,
    WebhookSender,
)
from tenantcron.manifests.policy import Policy
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, outbox, tenants, webhooks
from tenantcron.store.rows.outbox import Event, WebhookBacklog
from tenantcron.store.rows.webhooks import Webhook
from tenantcron.targets.http.client import HttpClient

# The id of test events. No tenant can have it.
_NO_TENANT: Final = TenantId("tenantcron")


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The webhooks of one database, changed on behalf of an actor."""

    database: Database
    who: Attribution

    async def add(self, new: Webhook) -> Webhook:
        """Add a webhook, which receives events from now on."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            await webhooks.lock(connection)
            known = await tenants.find_many(connection, new.tenants or ())
            unknown = [tenant for tenant in new.tenants or () if tenant not in known]
            if unknown:
                raise UnknownError(f"there is no tenant {', '.join(unknown)}", "nothing was added")
            if len(await webhooks.list_all(connection)) >= MOST_WEBHOOKS:
                raise OperationError(
                    f"there can be at most {MOST_WEBHOOKS} webhooks: remove one first"
                )
            row = await webhooks.add(connection, new)
        if row is None:
            raise OperationError(
                f"a webhook `{new.name}` exists: remove it first, or use another name"
            )
        return row

    async def enable(self, name: str) -> Webhook:
        """Enable a webhook; an enabled one stays unchanged."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            found = await webhooks.find(connection, name)
            return _existing(await webhooks.enable(connection, name) or found, name)

    async def disable(self, name: str, reason: str | None) -> Webhook:
        """Disable a webhook; a disabled one stays unchanged."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            found = await webhooks.find(connection, name)
            return _existing(await webhooks.disable(connection, name, reason) or found, name)

    async def remove(self, name: str) -> Webhook:
        """Remove a webhook and its undelivered events."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            return _existing(await webhooks.remove(connection, name), name)

    async def list_all(self) -> tuple[list[Webhook], dict[str, WebhookBacklog]]:
        """Return all webhooks by name, and their undelivered events."""
        async with self.database.transaction() as connection:
            rows = await webhooks.list_all(connection)
            return rows, dict(await outbox.backlogs(connection))

    async def test(self, name: str, policy: Policy, settings: Settings) -> tuple[Webhook, UUID]:
        """Send a test event from this machine; return the webhook and the id of the event."""
        async with self.database.transaction() as connection:
            found = _existing(await webhooks.find(connection, name), name)
            now = await times.database_time(connection)
        caller = HttpClient(policy.egress, ca_file=settings.ca_file)
        event = Event(0, uuid4(), TEST_TYPE, f"webhooks/{name}", now, {"webhook": name})
        sender = WebhookSender(caller, policy.allowed_secrets)
        try:
            await sender.send(found, _NO_TENANT, [event], now)
        except WebhookDeliveryError as error:
            raise OperationError(f"webhook {name} did not accept the event: {error}") from error
        finally:
            await caller.close()
        return found, event.id


def _existing(row: Webhook | None, name: str) -> Webhook:
    if row is None:
        raise UnknownError(f"there is no webhook {name!a}", "`tenantcron webhook list` shows all")
    return row
