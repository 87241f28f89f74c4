"""What requests may say: the parameters and bodies, checked where they come in."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import Header, Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tenantcron.actor.origin import LONGEST_SOURCE_REF
from tenantcron.api.pages import DEFAULT, LARGEST
from tenantcron.core.labels import LONGEST_VALUE, MOST_LABELS
from tenantcron.core.names import NAME_PATTERN, TENANT_PATTERN
from tenantcron.core.schema_names import LONGEST_NAME
from tenantcron.core.settings import MOST_CONCURRENT
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
_SAYS_SOMETHING: Final = r"\S"


def _in_utc(moment: datetime) -> datetime:
    """Without an offset it is UTC; what lies beyond all times is the last of them."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC)
    except OverflowError:
        return _FIRST if aware.year == 1 else _LAST


def _written(value: object) -> object:
    """Take times as they are written, and no numbers: nobody can tell seconds from milliseconds."""
    if isinstance(value, str) and _DATE.match(value) is None:
        raise ValueError("a time such as 2026-12-01T09:00:00Z")
    return value


def _clean(text: str) -> str:
    return visible(text).strip()


Moment = Annotated[datetime, BeforeValidator(_written), AfterValidator(_in_utc)]
Reason = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_REASON, pattern=_SAYS_SOMETHING),
    AfterValidator(_clean),
]
TenantPath = Annotated[str, Path(pattern=f"^{TENANT_PATTERN}$", description="the tenant's id")]
SchedulePath = Annotated[str, Path(pattern=f"^{NAME_PATTERN}$", description="its name")]
VersionPath = Annotated[int, Path(ge=1, le=_LARGEST_INTEGER, description="its number")]
Limit = Annotated[int, Query(ge=1, le=LARGEST, description="at most so many")]
After = Annotated[
    str | None, Query(max_length=1_000, description="`next` of the page before this one")
]
IfMatch = Annotated[
    str | None, Header(description="the ETag that the resource must still have; else 412")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=LONGEST_KEY,
        pattern=r"^[!-~]+$",
        description="a key of your own: the same request with the same key is done once",
    ),
]
Revision = Annotated[
    int | None,
    Query(ge=0, le=_LARGEST_REVISION, description="the revision that was planned from; else 409"),
]
IfNew = Annotated[
    Literal["*"] | None,
    Header(
        alias="If-None-Match",
        description="it was planned for a tenant that was not there; else 409",
    ),
]
MaxDeletes = Annotated[
    int | None, Query(ge=0, le=MOST_CONCURRENT, description="delete at most so many schedules")
]
LabelQuery = Annotated[
    list[Annotated[str, Field(max_length=LONGEST_VALUE + 64)]] | None,
    Query(max_length=MOST_LABELS, description="with all these labels: `key` or `key=value`"),
]
SourceRef = Annotated[
    str | None,
    Query(max_length=LONGEST_SOURCE_REF, description="what is applied, such as a commit"),
]
FileName = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=LONGEST_FILE,
        description="the manifest's file, for the places of diagnostics",
    ),
]
DEFAULT_LIMIT: Final = DEFAULT


class _Body(BaseModel):
    """A body says what it may say, and nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _whole(value: object) -> object:
    """JSON knows one kind of number: 5.0 is a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Whole = Annotated[int, BeforeValidator(_whole)]


class TenantLimitsBody(_Body):
    """Limits of a tenant's own; null gives one back to the platform, absent leaves it."""

    max_schedules: Annotated[_Whole, Field(ge=0, le=HIGHEST_LIMIT)] | None = None
    max_concurrent: Annotated[_Whole, Field(ge=1, le=HIGHEST_LIMIT)] | None = None


class NewTenant(TenantLimitsBody):
    """A tenant to be created."""

    tenant: Annotated[str, Field(pattern=f"^{TENANT_PATTERN}$")]
    # An attribute of that name would hide one of pydantic's own.
    adopted: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(
        default=None, alias="schema", description="a schema that is there, to be adopted"
    )
    labels: Annotated[dict[str, str], Field(max_length=MOST_LABELS)] | None = None


class TenantChanges(TenantLimitsBody):
    """Limits and labels of a tenant; a label that is null is removed, absent ones stay."""

    labels: Annotated[dict[str, str | None], Field(max_length=2 * MOST_LABELS)] | None = None


class RequiredReason(_Body):
    """Why something is done; it goes on record."""

    reason: Reason


class OptionalReason(_Body):
    """Why something is done, if there is something to say."""

    reason: Reason | None = None


class Deprovision(RequiredReason):
    """The end of a tenant's life; to drop its tables takes its id once more."""

    drop_schema: bool = False
    confirm: Annotated[str, Field(max_length=48)] | None = None


class PauseRequest(RequiredReason):
    """A pause, when it ends by itself, and whether it ends pending executions."""

    # Not strict, because JSON has no times: this is text.
    until: Annotated[Moment, Field(strict=False)] | None = None
    cancel_pending: bool = False
