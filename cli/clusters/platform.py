"""What commands can do with the platform of a cluster: limits, tokens, keys, webhooks, tenants."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from tenantcron.core.labels import LabelChanges
from tenantcron.core.names import TenantId
from tenantcron.service.responses.platform_shapes import (
    AuditResponse,
    DetachedResponse,
    LimitsResponse,
    NewTokenResponse,
    RefreshResponse,
    RewrappedResponse,
    SigningKeyList,
    SigningKeyResponse,
    TokenList,
    TokenResponse,
    WebhookList,
    WebhookResponse,
    WebhookTestResponse,
)
from tenantcron.service.responses.shapes import (
    ClusterAuditRecordResponse,
    DeprovisionedResponse,
    HealthResponse,
    TenantDetailsResponse,
    TenantResponse,
)

TenantLimitChanges = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class WebhookOrder:
    """A webhook to add, as given."""

    name: str
    url: str
    events: Sequence[str]
    tenants: Sequence[str]
    secret: str | None
    batch: bool


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Filters of audit records; None matches all."""

    tenant: TenantId | None
    # A schedule of the tenant.
    schedule: str | None
    since: datetime | None
    until: datetime | None


class InspectOperations(Protocol):
    """Health, audit and audit records."""

    async def health(self) -> HealthResponse:
        """Return the health of the cluster."""

    async def audit(self, tenant: TenantId | None, since: datetime | None) -> AuditResponse:
        """Compare expected occurrences with recorded executions."""

    async def records(self, query: RecordQuery, limit: int) -> Sequence[ClusterAuditRecordResponse]:
        """Return the newest audit records with their tenants."""


class LimitOperations(Protocol):
    """The concurrency limits of the cluster."""

    async def read(self) -> LimitsResponse:
        """Return the limits."""

    async def set(self, values: Mapping[str, int | None], reason: str | None) -> LimitsResponse:
        """Set limits by name; None restores the declared limit."""


class TokenOperations(Protocol):
    """API tokens."""

    async def list_all(self) -> TokenList:
        """Return all tokens."""

    async def create(
        self, name: str, role: str, tenant: TenantId | None, lives: timedelta
    ) -> NewTokenResponse:
        """Create a token."""

    async def revoke(self, token: str) -> TokenResponse:
        """Revoke a token."""


class KeyOperations(Protocol):
    """Keys that sign execution tokens."""

    async def list_all(self) -> SigningKeyList:
        """Return all keys."""

    async def rotate(self, algorithm: str, lead: timedelta) -> SigningKeyResponse:
        """Create a key that signs after the lead."""

    async def retire(self, kid: str) -> SigningKeyResponse:
        """Revoke a key."""

    async def rewrap(self) -> RewrappedResponse:
        """Encrypt all private keys with the first master key."""

    async def key_set(self) -> Mapping[str, object]:
        """Return the public keys as a JSON Web Key Set."""


class WebhookOperations(Protocol):
    """Webhooks."""

    async def list_all(self) -> WebhookList:
        """Return all webhooks."""

    async def add(self, order: WebhookOrder, policy: Path | None) -> WebhookResponse:
        """Add a webhook that the policy allows."""

    async def test(self, name: str, policy: Path | None) -> WebhookTestResponse:
        """Send a test event."""

    async def enable(self, name: str) -> WebhookResponse:
        """Enable a webhook."""

    async def disable(self, name: str, reason: str | None) -> WebhookResponse:
        """Disable a webhook."""

    async def remove(self, name: str) -> WebhookResponse:
        """Remove a webhook."""


class TenantOperations(Protocol):
    """Tenants."""

    def pages(self, labels: Sequence[str]) -> AsyncIterator[Sequence[TenantResponse]]:
        """Yield all tenants by id, page by page; a label is `key` or `key=value`."""

    async def show(self, tenant: TenantId) -> TenantDetailsResponse:
        """Return a tenant with its identities."""

    async def create(
        self,
        tenant: TenantId,
        limits: TenantLimitChanges,
        quotas: TenantLimitChanges,
        labels: LabelChanges,
        schema: str | None,
    ) -> TenantResponse:
        """Create a tenant."""

    async def suspend(self, tenant: TenantId, reason: str) -> TenantResponse:
        """Suspend a tenant."""

    async def resume(self, tenant: TenantId, reason: str | None) -> TenantResponse:
        """Resume a tenant."""

    async def deprovision(
        self, tenant: TenantId, reason: str, *, drop_schema: bool
    ) -> DeprovisionedResponse:
        """Deprovision a tenant; return what was kept, and why."""

    async def set_limits(
        self, tenant: TenantId, limits: TenantLimitChanges, quotas: TenantLimitChanges
    ) -> TenantResponse:
        """Set limits and quotas; None restores the default."""

    async def set_labels(self, tenant: TenantId, labels: LabelChanges) -> TenantResponse:
        """Set and remove labels."""

    async def refresh(self, max_missing: int | None, *, check: bool) -> RefreshResponse:
        """Sync the tenants with the tenant source, or only compare them."""

    async def detach(self) -> DetachedResponse:
        """Remove the tenant source."""
