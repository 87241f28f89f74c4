"""The platform of a cluster on a server: limits, tokens, keys, webhooks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tenantcron.cli.clusters.platform import RecordQuery, WebhookOrder
from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.client import cluster, platform, schedules, tenants
from tenantcron.core.durations import format_duration
from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.service.responses.platform_shapes import (
    AuditResponse,
    LimitsResponse,
    NewTokenResponse,
    RewrappedResponse,
    SigningKeyList,
    SigningKeyResponse,
    TokenList,
    TokenResponse,
    WebhookList,
    WebhookResponse,
    WebhookTestResponse,
)
from tenantcron.service.responses.shapes import ClusterAuditRecordResponse, HealthResponse


@dataclass(frozen=True, slots=True)
class ServerInspection:
    """Health, audit and audit records of a server."""

    caller: ServerCaller

    async def health(self) -> HealthResponse:
        """Return the health of the cluster."""
        return await self.caller.send(cluster.health())

    async def audit(self, tenant: TenantId | None, since: datetime | None) -> AuditResponse:
        """Compare expected occurrences with recorded executions."""
        return await self.caller.send(platform.audit(tenant=tenant, since=since))

    async def records(self, query: RecordQuery, limit: int) -> Sequence[ClusterAuditRecordResponse]:
        """Return the newest audit records with their tenants."""
        tenant, schedule = query.tenant, query.schedule
        if tenant is None:
            everything = cluster.audit_records(since=query.since, until=query.until)
            return await self.caller.first(everything, limit)
        call = tenants.audit_records(
            tenant, schedule=schedule, since=query.since, until=query.until
        )
        found = await self.caller.first(call, limit)
        if not found and schedule is not None:
            # Raises an error if the schedule does not exist.
            await self.caller.send(schedules.show(tenant, schedule))
        return [{"tenant": tenant, **record} for record in found]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server."""

    caller: ServerCaller

    async def read(self) -> LimitsResponse:
        """Return the limits."""
        return await self.caller.send(platform.limits())

    async def set(self, values: Mapping[str, int | None], reason: str | None) -> LimitsResponse:
        """Set limits by name; None restores the declared limit."""
        return await self.caller.send(platform.set_limits(values, reason))


@dataclass(frozen=True, slots=True)
class ServerTokens:
    """The API tokens of a server."""

    caller: ServerCaller

    async def list_all(self) -> TokenList:
        """Return all tokens."""
        return await self.caller.send(platform.tokens())

    async def create(
        self, name: str, role: str, tenant: TenantId | None, lives: timedelta
    ) -> NewTokenResponse:
        """Create a token."""
        expires_in = format_duration(lives)
        call = platform.create_token(name, role, tenant=tenant, expires_in=expires_in)
        return await self.caller.send(call)

    async def revoke(self, token: str) -> TokenResponse:
        """Revoke a token."""
        return await self.caller.send(platform.revoke_token(token))


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The signing keys of a server."""

    caller: ServerCaller

    async def list_all(self) -> SigningKeyList:
        """Return all keys."""
        return await self.caller.send(platform.keys())

    async def rotate(self, algorithm: str, lead: timedelta) -> SigningKeyResponse:
        """Create a key that signs after the lead."""
        given = format_duration(lead) if lead else None
        return await self.caller.send(platform.rotate_keys(algorithm, lead=given, now=not lead))

    async def retire(self, kid: str) -> SigningKeyResponse:
        """Revoke a key."""
        return await self.caller.send(platform.retire_key(kid))

    async def rewrap(self) -> RewrappedResponse:
        """Encrypt all private keys with the first master key of the server."""
        return await self.caller.send(platform.rewrap_keys())

    async def key_set(self) -> Mapping[str, object]:
        """Return the public keys as a JSON Web Key Set."""
        return await self.caller.send(platform.key_set())


@dataclass(frozen=True, slots=True)
class ServerWebhooks:
    """The webhooks of a server."""

    caller: ServerCaller

    async def list_all(self) -> WebhookList:
        """Return all webhooks."""
        return await self.caller.send(platform.webhooks())

    async def add(self, order: WebhookOrder, policy: Path | None) -> WebhookResponse:
        """Add a webhook that the policy of the server allows."""
        _refuse_policy(policy)
        call = platform.add_webhook(
            order.name,
            order.url,
            events=order.events,
            tenants=order.tenants,
            secret=order.secret,
            batch=order.batch,
        )
        return await self.caller.send(call)

    async def test(self, name: str, policy: Path | None) -> WebhookTestResponse:
        """Send a test event from the server."""
        _refuse_policy(policy)
        return await self.caller.send(platform.test_webhook(name))

    async def enable(self, name: str) -> WebhookResponse:
        """Enable a webhook."""
        return await self.caller.send(platform.enable_webhook(name))

    async def disable(self, name: str, reason: str | None) -> WebhookResponse:
        """Disable a webhook."""
        return await self.caller.send(platform.disable_webhook(name, reason))

    async def remove(self, name: str) -> WebhookResponse:
        """Remove a webhook."""
        return await self.caller.send(platform.remove_webhook(name))


def _refuse_policy(policy: Path | None) -> None:
    if policy is not None:
        raise UsageError("--policy cannot be used with a server: the server applies its own policy")
