"""The types of JSON responses about the platform: limits, tokens, webhooks, keys, audit, refresh.

Like `shapes`, this module must not import a database driver.
"""

from typing import Annotated, Final

# Pydantic requires this TypedDict on older versions of Python.
from typing_extensions import TypedDict

from tenantcron.service.responses.shapes import Id, JsonKeywords, Time

ROLES: Final = ("viewer", "operator", "deployer", "admin", "submitter")
KEY_STATES: Final = ("next", "active", "retiring", "retired")
ALGORITHMS: Final = ("EdDSA", "ES256")
RoleName = Annotated[str, JsonKeywords(enum=ROLES)]
KeyStateName = Annotated[str, JsonKeywords(enum=KEY_STATES)]
AlgorithmName = Annotated[str, JsonKeywords(enum=ALGORITHMS)]


class DeclaredLimitsResponse(TypedDict):
    """The limits in the settings of the schedulers."""

    max_concurrent: int
    max_concurrent_per_tenant: int


class OperatorLimitsResponse(TypedDict):
    """The limits that an operator has set; null: the declared limit applies."""

    max_concurrent: int | None
    max_concurrent_per_tenant: int | None


class LimitsResponse(TypedDict):
    """The concurrency limits of the cluster: in effect, declared, and set by an operator."""

    max_concurrent: int
    max_concurrent_per_tenant: int
    declared: DeclaredLimitsResponse
    operator: OperatorLimitsResponse
    running: int


class TokenResponse(TypedDict):
    """An API token without its secret."""

    id: str
    name: str
    role: RoleName
    # Null: all tenants.
    tenant: str | None
    created_by: str
    created_at: Time
    expires_at: Time
    revoked_at: Time | None


class NewTokenResponse(TokenResponse):
    """A new API token; `token` is null in the response to a repeated request."""

    token: str | None


class TokenList(TypedDict):
    """All API tokens, the newest first."""

    tokens: list[TokenResponse]


class WebhookResponse(TypedDict):
    """A webhook. Only the origin of its URL is shown, because the rest may be a secret."""

    name: str
    calls: str | None
    events: list[str]
    # Null: all tenants.
    tenants: list[str] | None
    # A reference to the secret, never the secret.
    secret: str | None
    batch: bool
    created_by: str
    created_at: Time | None
    disabled_at: Time | None
    disabled_reason: str | None
    waiting_since: Time | None
    tenants_waiting: int
    error: str | None
    dropped: int


class WebhookTestResponse(WebhookResponse):
    """A webhook that accepted a test event."""

    event: Id


class WebhookList(TypedDict):
    """All webhooks by name."""

    webhooks: list[WebhookResponse]


class SigningKeyResponse(TypedDict):
    """A key that signs execution tokens."""

    kid: str
    algorithm: AlgorithmName
    state: KeyStateName
    # The end of the state; null if it is not known.
    until: Time | None
    created_at: Time
    active_from: Time
    retired_at: Time | None
    # The id of the master key that encrypts it.
    sealed_by: str | None


class SigningKeyList(TypedDict):
    """All keys by the time from which they sign; keys of the settings sign instead of them."""

    configured: list[str]
    keys: list[SigningKeyResponse]


class RewrappedResponse(TypedDict):
    """The number of keys that were encrypted again."""

    rewrapped: int


class AuditFindingResponse(TypedDict):
    """A difference between expected occurrences and recorded executions, and what to do."""

    code: str
    tenant: str
    schedule: str | None
    since: Time | None
    until: Time | None
    count: int
    message: str
    hint: str


class AuditResponse(TypedDict):
    """The result of an audit: the period, the number of items compared, and the findings."""

    since: Time
    until: Time
    tenants: int
    schedules: int
    occurrences: int
    findings: list[AuditFindingResponse]


class ColumnChangeResponse(TypedDict):
    """The change of a column of a tenant."""

    column: str
    before: str | None
    after: str | None


class TenantChangeResponse(TypedDict):
    """The changes of a tenant."""

    tenant: str
    changes: list[ColumnChangeResponse]


class SourceProblemResponse(TypedDict):
    """A row of the tenant source that cannot be used."""

    tenant: str | None
    problem: str


class RefreshResponse(TypedDict):
    """The differences between the tenant source and the tenants, and what was changed."""

    source: str
    # How many tenants the source has.
    tenants: int
    applied: bool
    new: list[str]
    registered: list[str]
    changes: list[TenantChangeResponse]
    # Tenants that are missing in the source, but too many to be suspended at once.
    held: list[str]
    problems: list[SourceProblemResponse]


class DetachedResponse(TypedDict):
    """The tenant source is removed; `released` tenants can be edited here again."""

    detached: bool
    released: int
