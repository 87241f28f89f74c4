"""The platform of a cluster in a database: limits, tokens and webhooks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tenantcron.actor.grants import Grant, Role
from tenantcron.cli.clusters.database.caller import LocalCaller
from tenantcron.cli.clusters.platform import WebhookOrder
from tenantcron.core.names import TenantId
from tenantcron.manifests.policy import policy_in
from tenantcron.service.limits import read_limits, set_limits
from tenantcron.service.responses.platform_shapes import (
    LimitsResponse,
    NewTokenResponse,
    TokenList,
    TokenResponse,
    WebhookList,
    WebhookResponse,
    WebhookTestResponse,
)
from tenantcron.service.responses.tokens import token_as_json
from tenantcron.service.responses.webhooks import webhook_as_json, webhooks_as_json
from tenantcron.service.tokens import create_token, list_tokens, revoke_token
from tenantcron.service.webhook_requests import WebhookRequest, checked_webhook
from tenantcron.service.webhooks import Webhooks


@dataclass(frozen=True, slots=True)
class DatabaseLimits:
    """The limits of a database."""

    caller: LocalCaller

    async def read(self) -> LimitsResponse:
        """Return the limits."""
        return await read_limits(self.caller.database)

    async def set(self, values: Mapping[str, int | None], reason: str | None) -> LimitsResponse:
        """Set limits by name; None restores the declared limit."""
        return await set_limits(self.caller.operator(), values, reason)


@dataclass(frozen=True, slots=True)
class DatabaseTokens:
    """The API tokens of a database."""

    caller: LocalCaller

    async def list_all(self) -> TokenList:
        """Return all tokens."""
        return {"tokens": [token_as_json(row) for row in await list_tokens(self.caller.database)]}

    async def create(
        self, name: str, role: str, tenant: TenantId | None, lives: timedelta
    ) -> NewTokenResponse:
        """Create a token."""
        created = await create_token(
            self.caller.database,
            self.caller.who,
            name=name,
            grant=Grant(Role(role), tenant),
            lives=lives,
        )
        return {**token_as_json(created.row), "token": created.new.text}

    async def revoke(self, token: str) -> TokenResponse:
        """Revoke a token."""
        row = await revoke_token(self.caller.database, self.caller.who, token)
        return token_as_json(row)


@dataclass(frozen=True, slots=True)
class DatabaseWebhooks:
    """The webhooks of a database."""

    caller: LocalCaller

    async def list_all(self) -> WebhookList:
        """Return all webhooks."""
        return webhooks_as_json(*await self._hooks().list_all())

    async def add(self, order: WebhookOrder, policy: Path | None) -> WebhookResponse:
        """Add a webhook that the policy allows."""
        request = WebhookRequest(
            name=order.name,
            url=order.url,
            events=tuple(order.events),
            tenants=tuple(order.tenants),
            secret=order.secret,
            batch=order.batch,
        )
        allowed = policy_in(Path.cwd(), policy)
        new = checked_webhook(request, allowed, self.caller.who.changed_by)
        return webhook_as_json(await self._hooks().add(new))

    async def test(self, name: str, policy: Path | None) -> WebhookTestResponse:
        """Send a test event from this machine."""
        allowed = policy_in(Path.cwd(), policy)
        found, event = await self._hooks().test(name, allowed, self.caller.settings)
        return {**webhook_as_json(found), "event": str(event)}

    async def enable(self, name: str) -> WebhookResponse:
        """Enable a webhook."""
        return webhook_as_json(await self._hooks().enable(name))

    async def disable(self, name: str, reason: str | None) -> WebhookResponse:
        """Disable a webhook."""
        return webhook_as_json(await self._hooks().disable(name, reason))

    async def remove(self, name: str) -> WebhookResponse:
        """Remove a webhook."""
        return webhook_as_json(await self._hooks().remove(name))

    def _hooks(self) -> Webhooks:
        return Webhooks(self.caller.database, self.caller.who)
