"""The plan of a refresh: the changes of each tenant. Values in, values out.

Tenants that are no longer in the source, or have no valid row in it, are suspended. So are those
that it marks as deprovisioned. If that affects too many at once, they are held: they stay as they
are, because a broken view is more likely than a platform that lost half of its customers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tenantcron.core.labels import Labels
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.core.words import in_utc
from tenantcron.store.rows.tenant_sources import (
    Compared,
    DifferingTenant,
    SourceProblem,
    TenantChange,
)
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.tenants.source.rows import CheckedRow, check_id, check_row, id_problem

# This many may always go missing; beyond that, at most half of the sourced tenants.
ALWAYS_ALLOWED_MISSING: Final = 5
UNKNOWN: Final = "the tenant source gives no valid status"


@dataclass(frozen=True, slots=True)
class PlannedTenantChange:
    """A registered tenant before and after; `before` has the columns that the source can set."""

    before: TenantChange
    after: TenantChange
    # The source did not manage it before.
    is_adopted: bool = False
    # The source has no row for it, or none with a valid status.
    is_lost: bool = False

    @property
    def is_closing(self) -> bool:
        """Whether the guard counts it: an active tenant that goes missing or is deprovisioned."""
        ends = self.after.status is TenantStatus.DEPROVISIONED
        return self.before.status is TenantStatus.ACTIVE and (ends or self.is_lost)

    @property
    def ends_or_returns(self) -> bool:
        """Whether the tenant's schedules stop counting, or count again."""
        gone = TenantStatus.DEPROVISIONED
        return (self.before.status is gone) is not (self.after.status is gone)

    @property
    def is_return(self) -> bool:
        """Whether a deprovisioned tenant returns, for which its tables must still exist."""
        gone = TenantStatus.DEPROVISIONED
        return self.before.status is gone and self.after.status is not gone


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The changes of a refresh."""

    new: tuple[CheckedRow, ...] = ()
    changes: tuple[PlannedTenantChange, ...] = ()
    # These would be suspended or deprovisioned, and stay as they are.
    held: tuple[TenantId, ...] = ()
    problems: tuple[SourceProblem, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.new or self.changes)


def make_plan(compared: Compared, max_missing: int | None = None) -> SourcePlan:
    """Plan the differences; `max_missing` replaces the number of the guard."""
    new: list[CheckedRow] = []
    changes: list[PlannedTenantChange] = []
    problems: list[SourceProblem] = []
    for differing in compared.differing:
        row = _checked(differing, problems)
        if differing.live is not None:
            before, schema = _before(differing.live)
            change = _change(before, row, compared.at)
            is_adopted = differing.live["sourced"] is not True
            if differing.given is None or row is not None:
                changes.append(replace(change, is_adopted=is_adopted))
            problems.extend(_moved(row, schema))
        elif row is not None and not row.problems:
            new.append(row)
    changes = [change for change in changes if change.before != change.after or change.is_adopted]
    allowed = _allowed(compared.sourced) if max_missing is None else max_missing
    closing = {change.after.id for change in changes if change.is_closing}
    held = closing if len(closing) > allowed else set()
    return SourcePlan(
        tuple(sorted(new, key=lambda row: row.id)),
        tuple(change for change in changes if change.after.id not in held),
        tuple(sorted(held)),
        tuple(problems),
    )


def _allowed(sourced: int) -> int:
    return max(ALWAYS_ALLOWED_MISSING, sourced // 2)


def _checked(differing: DifferingTenant, problems: list[SourceProblem]) -> CheckedRow | None:
    """Check the row of the source; collect its problems."""
    given = differing.given
    if given is None:
        return None
    tenant_id, shown = check_id(given)
    if tenant_id is None:
        problems.append(SourceProblem(shown, id_problem(given)))
        return None
    row = check_row(tenant_id, given, is_twice=differing.is_twice)
    if differing.is_shared and row.schema_name is not None:
        shared = f"the schema {row.schema_name!r} is the schema of another row, too"
        row = replace(row, problems=(*row.problems, shared))
    problems.extend(SourceProblem(row.id, problem) for problem in dict.fromkeys(row.problems))
    return row


def _change(before: TenantChange, row: CheckedRow | None, at: datetime) -> PlannedTenantChange:
    if row is None:
        reason = f"missing from the tenant source since {in_utc(at)}"
        return PlannedTenantChange(before, _closed(before, reason, is_missing=True), is_lost=True)
    if row.status is None:
        return PlannedTenantChange(before, _closed(before, UNKNOWN), is_lost=True)
    return PlannedTenantChange(before, _wanted(before, row, row.status))


def _moved(row: CheckedRow | None, schema: str) -> Iterator[SourceProblem]:
    if row is not None and row.schema_name is not None and row.schema_name != schema:
        moved = f"its schema is {schema!r}, and the source says {row.schema_name!r}"
        yield SourceProblem(row.id, moved)


def _before(live: JsonObject) -> tuple[TenantChange, str]:
    labels = live["labels"]
    return (
        TenantChange(
            TenantId(str(live["id"])),
            TenantStatus(str(live["status"])),
            None if live["status_reason"] is None else str(live["status_reason"]),
            int(str(live["weight"])),
            {key: str(value) for key, value in labels.items()} if isinstance(labels, dict) else {},
            is_missing=live["is_missing"] is True,
        ),
        str(live["schema_name"]),
    )


def _closed(before: TenantChange, reason: str, *, is_missing: bool = False) -> TenantChange:
    """Suspend a tenant, unless it is deprovisioned already."""
    if before.status is TenantStatus.DEPROVISIONED:
        return replace(before, is_missing=is_missing)
    return replace(
        before, status=TenantStatus.SUSPENDED, status_reason=reason, is_missing=is_missing
    )


def _wanted(before: TenantChange, row: CheckedRow, status: TenantStatus) -> TenantChange:
    return TenantChange(
        row.id,
        status,
        row.status_reason,
        before.weight if row.weight is None else row.weight,
        before.labels if row.labels is None else row.labels,
    )


def differences(change: PlannedTenantChange) -> list[tuple[str, str, str]]:
    """Return the changed columns with their values before and after, as text."""
    before, after = change.before, change.after
    pairs = (
        ("status", before.status.value, after.status.value),
        ("reason", before.status_reason or "", after.status_reason or ""),
        ("weight", str(before.weight), str(after.weight)),
        *_label_pairs(before.labels, after.labels),
    )
    managed = [("managed by", "operator", "source")] if change.is_adopted else []
    return [*managed, *(pair for pair in pairs if pair[1] != pair[2])]


def _label_pairs(before: Labels, after: Labels) -> Iterable[tuple[str, str, str]]:
    keys = sorted(before.keys() | after.keys())
    return ((f"label {key}", before.get(key, ""), after.get(key, "")) for key in keys)
