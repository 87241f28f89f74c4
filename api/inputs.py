"""Parameters and bodies of requests, with their validation."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import Header, Path, Query
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from tenantcron.actor.origin import LONGEST_SOURCE_REF
from tenantcron.api.pages import DEFAULT, LARGEST
from tenantcron.core.durations import DurationError, parse_duration
from tenantcron.core.labels import LONGEST_VALUE, MOST_LABELS
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN
from tenantcron.core.quotas import QUOTAS
from tenantcron.core.schema_names import LONGEST_NAME
from tenantcron.core.setting_readers import MOST_CONCURRENT
from tenantcron.core.tenant_limits import HIGHEST_LIMIT, HIGHEST_WEIGHT
from tenantcron.core.words import visible
from tenantcron.service.responses.platform_shapes import ROLES
from tenantcron.store.rows.idempotency_keys import LONGEST_KEY

LONGEST_REASON: Final = 500
LONGEST_FILE: Final = 1_000
_LARGEST_INTEGER: Final = 2**31 - 1
_LARGEST_REVISION: Final = 2**53
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NOT_BLANK: Final = r"\S"
_LONGEST_TEXT: Final = 2_048
_LONGEST_DURATION: Final = 32
_MOST_ITEMS: Final = 1_000


def _in_utc(moment: datetime) -> datetime:
    """Convert a time to UTC. Without an offset it is UTC; out of range, it is clamped."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC)
    except OverflowError:
        return _FIRST if aware.year == 1 else _LAST


def _require_iso_format(value: object) -> object:
    """Reject numbers, because they could be seconds or milliseconds."""
    if isinstance(value, str) and _DATE.match(value) is None:
        raise ValueError("not an ISO 8601 time such as 2026-12-01T09:00:00Z")
    return value


def _is_duration(text: str) -> str:
    try:
        parse_duration(text)
    except DurationError as error:
        raise ValueError(str(error)) from error
    return text


def _clean(text: str) -> str:
    return visible(text).strip()


Moment = Annotated[datetime, BeforeValidator(_require_iso_format), AfterValidator(_in_utc)]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_REASON, pattern=_NOT_BLANK),
    AfterValidator(_clean),
]
Duration = Annotated[
    str, Field(max_length=_LONGEST_DURATION, examples=["90d"]), AfterValidator(_is_duration)
]
TenantPath = Annotated[
    str, Path(pattern=f"^{TENANT_PATTERN}$", description="The id of the tenant.")
]
SchedulePath = Annotated[
    str, Path(pattern=f"^{NAME_PATTERN}$", description="The name of the schedule.")
]
VersionPath = Annotated[
    int, Path(ge=1, le=_LARGEST_INTEGER, description="The number of the version.")
]
Limit = Annotated[int, Query(ge=1, le=LARGEST, description="The maximum number of items.")]
After = Annotated[
    str | None, Query(max_length=1_000, description="The value of `next` in the previous page.")
]
IfMatch = Annotated[
    str | None, Header(description="The expected ETag of the resource; 412 if it changed.")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=LONGEST_KEY,
        pattern=r"^[!-~]+$",
        description="A unique key; repeating a request with its key runs it once.",
    ),
]
Revision = Annotated[
    int | None,
    Query(ge=0, le=_LARGEST_REVISION, description="The expected revision of the tenant; else 409."),
]
IfNew = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        pattern=r"^\*$",
        description="`*` if the tenant must not exist yet; else 409.",
    ),
]
MaxDeletes = Annotated[
    int | None, Query(ge=0, le=MOST_CONCURRENT, description="The maximum number of deletes.")
]
LabelQuery = Annotated[
    list[Annotated[str, Field(max_length=LONGEST_VALUE + 64)]] | None,
    Query(max_length=MOST_LABELS, description="Filter by labels: `key` or `key=value`."),
]
SourceRef = Annotated[
    str | None,
    Query(max_length=LONGEST_SOURCE_REF, description="The source to record, such as a commit."),
]
FileName = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=LONGEST_FILE,
        description="The file name of the manifest, for diagnostics.",
    ),
]
DEFAULT_LIMIT: Final = DEFAULT


class Body(BaseModel):
    """A JSON body without unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _to_integer(value: object) -> object:
    """Accept 5.0 as an integer, because JSON has a single number type."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Integer = Annotated[int, BeforeValidator(_to_integer)]


def _quota(name: str) -> FieldInfo:
    rule = QUOTAS[name]
    words = f"{rule.lowest} to {rule.highest}{' bytes' if rule.is_size else ''}"
    field: FieldInfo = Field(ge=rule.lowest, le=rule.highest, description=words)
    return field


class QuotaChanges(Body):
    """Quotas of a tenant. Null restores the policy's quota; an absent quota is unchanged."""

    pending_tasks: Annotated[_Integer, _quota("pending_tasks")] | None = None
    starts_per_minute: Annotated[_Integer, _quota("starts_per_minute")] | None = None
    payload_bytes: Annotated[_Integer, _quota("payload_bytes")] | None = None
    stored_bytes: Annotated[_Integer, _quota("stored_bytes")] | None = None
    schedules_per_owner: Annotated[_Integer, _quota("schedules_per_owner")] | None = None


class TenantLimitsBody(Body):
    """Limits of a tenant. Null restores the platform's limit; an absent limit is unchanged."""

    max_schedules: Annotated[_Integer, Field(ge=0, le=HIGHEST_LIMIT)] | None = None
    max_concurrent: Annotated[_Integer, Field(ge=1, le=HIGHEST_LIMIT)] | None = None
    weight: Annotated[_Integer, Field(ge=1, le=HIGHEST_WEIGHT)] | None = Field(
        default=None, description="The share of scarce slots; null restores 1."
    )
    quotas: QuotaChanges | None = None


class NewTenant(TenantLimitsBody):
    """The tenant to create."""

    tenant: Annotated[str, Field(pattern=f"^{TENANT_PATTERN}$")]
    # An attribute named `schema` would hide one of pydantic.
    adopted: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(
        default=None, alias="schema", description="An existing schema to adopt."
    )
    labels: Annotated[dict[str, str], Field(max_length=MOST_LABELS)] | None = None


class TenantChanges(TenantLimitsBody):
    """Changes of limits and labels. Null removes a label; absent labels are unchanged."""

    labels: Annotated[dict[str, str | None], Field(max_length=2 * MOST_LABELS)] | None = None


class RequiredReason(Body):
    """The reason of an operation, which the audit records."""

    reason: Reason


class OptionalReason(Body):
    """The optional reason of an operation."""

    reason: Reason | None = None


NO_REASON: Final = OptionalReason()


class LimitChanges(OptionalReason):
    """Limits of the cluster. Null restores the declared limit; an absent limit is unchanged."""

    max_concurrent: Annotated[_Integer, Field(ge=0, le=MOST_CONCURRENT)] | None = None
    max_concurrent_per_tenant: Annotated[_Integer, Field(ge=0, le=MOST_CONCURRENT)] | None = None


class NewApiToken(Body):
    """The API token to create. Without a tenant, it is for all tenants."""

    name: Annotated[str, Field(pattern=f"^{NAME_PATTERN}$", examples=["ci"])]
    role: Annotated[str, Field(json_schema_extra={"enum": list(ROLES)})]
    tenant: Annotated[str, Field(pattern=f"^{TENANT_PATTERN}$")] | None = None
    expires_in: Annotated[Duration, Field(description="How long it lives, at most 366 days.")] = (
        "90d"
    )

    @field_validator("role")
    @classmethod
    def _known_role(cls, role: str) -> str:
        if role not in ROLES:
            raise ValueError(f"must be one of {', '.join(ROLES)}")
        return role


class NewWebhook(Body):
    """The webhook to add. Without events or tenants, it receives those of all."""

    name: Annotated[str, Field(max_length=_LONGEST_TEXT, examples=["ops"])]
    url: Annotated[str, Field(max_length=_LONGEST_TEXT, examples=["https://ops.internal/hooks"])]
    events: (
        Annotated[
            list[Annotated[str, Field(max_length=_LONGEST_TEXT)]],
            Field(max_length=_MOST_ITEMS, description="Types or families, such as `execution`."),
        ]
        | None
    ) = None
    tenants: (
        Annotated[
            list[Annotated[str, Field(max_length=_LONGEST_TEXT)]], Field(max_length=_MOST_ITEMS)
        ]
        | None
    ) = None
    secret: (
        Annotated[
            str,
            Field(
                max_length=_LONGEST_TEXT,
                description="A reference to the secret: env:NAME or file:/path.",
                examples=["env:HOOK_SECRET"],
            ),
        ]
        | None
    ) = None
    batch: Annotated[bool, Field(description="Send several events per request.")] = False


class Rotation(Body):
    """How to rotate the signing keys: the algorithm, and when the new key signs."""

    algorithm: Literal["EdDSA", "ES256"] = "EdDSA"
    lead: (
        Annotated[Duration, Field(description="How long it is published before it signs.")] | None
    ) = None
    now: Annotated[bool, Field(description="Sign with it at once.")] = False


NO_ROTATION: Final = Rotation()


class RefreshRequest(Body):
    """How to sync tenants: compare only, or detach the source instead."""

    check: Annotated[bool, Field(description="Show the differences and change nothing.")] = False
    detach: Annotated[bool, Field(description="Remove the source and keep its tenants.")] = False
    max_missing: (
        Annotated[
            _Integer,
            Field(
                ge=0,
                le=HIGHEST_LIMIT,
                description="Suspend up to this many tenants that are missing in the source.",
            ),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _one_action(self) -> "RefreshRequest":
        if self.check and self.detach:
            raise ValueError("send `check` or `detach`, not both")
        return self


NO_REFRESH: Final = RefreshRequest()


class Deprovision(RequiredReason):
    """Deprovision a tenant. To drop its tables, repeat its id in `confirm`."""

    drop_schema: bool = False
    confirm: Annotated[str, Field(max_length=48)] | None = None


class PauseRequest(RequiredReason):
    """A pause, its optional end, and whether it cancels pending executions."""

    # Not strict, because a time in JSON is a string.
    until: Annotated[Moment, Field(strict=False)] | None = None
    cancel_pending: bool = False
