"""Parameters and bodies of requests, with their validation."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Header, Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tenantcron.actor.origin import LONGEST_SOURCE_REF
from tenantcron.api.pages import DEFAULT, LARGEST
from tenantcron.core.labels import LONGEST_VALUE, MOST_LABELS
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN
from tenantcron.core.schema_names import LONGEST_NAME
from tenantcron.core.setting_readers import MOST_CONCURRENT
from tenantcron.core.words import visible
from tenantcron.store.rows.idempotency_keys import LONGEST_KEY
from tenantcron.store.rows.tenants import HIGHEST_LIMIT

LONGEST_REASON: Final = 500
LONGEST_FILE: Final = 1_000
_LARGEST_INTEGER: Final = 2**31 - 1
_LARGEST_REVISION: Final = 2**53
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NOT_BLANK: Final = r"\S"


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


def _clean(text: str) -> str:
    return visible(text).strip()


Moment = Annotated[datetime, BeforeValidator(_require_iso_format), AfterValidator(_in_utc)]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_REASON, pattern=_NOT_BLANK),
    AfterValidator(_clean),
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


class _Body(BaseModel):
    """A JSON body without unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _to_integer(value: object) -> object:
    """Accept 5.0 as an integer, because JSON has a single number type."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Integer = Annotated[int, BeforeValidator(_to_integer)]


class TenantLimitsBody(_Body):
    """Limits of a tenant. Null restores the platform's limit; an absent limit is unchanged."""

    max_schedules: Annotated[_Integer, Field(ge=0, le=HIGHEST_LIMIT)] | None = None
    max_concurrent: Annotated[_Integer, Field(ge=1, le=HIGHEST_LIMIT)] | None = None


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


class RequiredReason(_Body):
    """The reason of an operation, which the audit records."""

    reason: Reason


class OptionalReason(_Body):
    """The optional reason of an operation."""

    reason: Reason | None = None


NO_REASON: Final = OptionalReason()


class Deprovision(RequiredReason):
    """Deprovision a tenant. To drop its tables, repeat its id in `confirm`."""

    drop_schema: bool = False
    confirm: Annotated[str, Field(max_length=48)] | None = None


class PauseRequest(RequiredReason):
    """A pause, its optional end, and whether it cancels pending executions."""

    # Not strict, because a time in JSON is a string.
    until: Annotated[Moment, Field(strict=False)] | None = None
    cancel_pending: bool = False
