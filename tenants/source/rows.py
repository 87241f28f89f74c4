"""One checked row of a tenant source: the desired tenant, and its problems.

The status of a row with problems still counts for a registered tenant: a tenant that the platform
suspends is suspended, whatever its labels are. An unknown status suspends.
"""

from dataclasses import dataclass, field
from typing import Final

from tenantcron.core.errors import UsageError
from tenantcron.core.labels import Labels, label_problems
from tenantcron.core.names import TENANT_EXPECTED, TenantId, is_reserved, is_tenant_id
from tenantcron.core.schema_names import SchemaName, schema_name
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import shortened, visible
from tenantcron.store.rows.tenants import TenantStatus

LONGEST_REASON: Final = 500
WEIGHTS: Final = range(1, 101)


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """The valid parts of a row; None where the source has nothing valid."""

    id: TenantId
    # None: unknown, or the source has several rows for the tenant.
    status: TenantStatus | None
    status_reason: str | None = None
    schema_name: SchemaName | None = None
    weight: int | None = None
    labels: Labels | None = None
    problems: tuple[str, ...] = field(default=())


def check_id(given: JsonObject) -> tuple[TenantId | None, str]:
    """Return the id of a row, None if it is invalid, and a label of the row for messages."""
    found = given.get("id")
    if not isinstance(found, str):
        return None, "" if found is None else shortened(str(found))
    valid = is_tenant_id(found) and not is_reserved(found)
    return (TenantId(found) if valid else None), shortened(visible(found))


def id_problem(given: JsonObject) -> str:
    """Return why the id of a row is invalid."""
    found = given.get("id")
    if found is None:
        return "a row has no id"
    if isinstance(found, str) and is_reserved(found):
        return "the id is reserved"
    return f"the id is not {TENANT_EXPECTED}"


def check_row(tenant_id: TenantId, given: JsonObject, *, is_twice: bool) -> CheckedRow:
    """Check all columns of a row with a valid id."""
    problems: list[str] = []
    if is_twice:
        problems.append("the source has several rows with this id")
        return CheckedRow(tenant_id, None, problems=tuple(problems))
    return CheckedRow(
        tenant_id,
        _status(given, problems),
        _reason(given, problems),
        _schema(given, problems),
        _weight(given, problems),
        _labels(given, problems),
        problems=tuple(problems),
    )


def _status(given: JsonObject, problems: list[str]) -> TenantStatus | None:
    if "status" not in given:
        return TenantStatus.ACTIVE
    found = given["status"]
    for status in TenantStatus:
        if status.value == found:
            return status
    problems.append(f"the status {_shown(found)} is not one of {', '.join(TenantStatus)}")
    return None


def _reason(given: JsonObject, problems: list[str]) -> str | None:
    found = given.get("status_reason")
    if found is None or isinstance(found, str):
        return shortened(visible(found), LONGEST_REASON) if found else None
    problems.append(f"the status_reason {_shown(found)} is not text")
    return None


def _schema(given: JsonObject, problems: list[str]) -> SchemaName | None:
    found = given.get("schema_name")
    if found is None:
        return None
    if not isinstance(found, str):
        problems.append(f"the schema_name {_shown(found)} is not text")
        return None
    try:
        return schema_name(found)
    except UsageError as error:
        problems.append(str(error))
        return None


def _weight(given: JsonObject, problems: list[str]) -> int | None:
    if "weight" not in given:
        return None
    found = given["weight"]
    if found is None:
        return 1
    # An integer may be written as 5.0.
    if isinstance(found, int | float) and not isinstance(found, bool) and found in WEIGHTS:
        return int(found)
    problems.append(f"the weight {_shown(found)} is not a whole number from 1 to 100")
    return None


def _labels(given: JsonObject, problems: list[str]) -> Labels | None:
    if "labels" not in given:
        return None
    found = given["labels"]
    if found is None:
        return {}
    if not isinstance(found, dict):
        problems.append("the labels are not an object of texts")
        return None
    wrong = label_problems(found)
    problems.extend(wrong)
    return None if wrong else {key: str(value) for key, value in found.items()}


def _shown(value: JsonValue) -> str:
    return "(none)" if value is None else repr(shortened(visible(str(value))))
