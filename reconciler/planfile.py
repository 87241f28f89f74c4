"""Saved plans: what was reviewed, bound to the state that it was made from.

A plan file holds, per tenant, the document that is wanted and the tenant's revision, and what the
apply may do besides. Applying it applies exactly these documents, and only to tenants whose
revision has not moved.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, cast

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.reconciler.definition import Document, definitions
from tenantcron.reconciler.outcome import Outcome, Status
from tenantcron.reconciler.plan import Reviewed, Rules, want
from tenantcron.reconciler.sealed import OF_DATABASE, seal, unseal
from tenantcron.reconciler.sources import Prepared


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as it was reviewed."""

    prepared: list[Prepared]
    rules: Rules


class _Entry(TypedDict):
    tenant: str
    file: str
    revision: int | None
    document: Document
    source_checksum: str


class _Rules(TypedDict):
    create_tenants: bool
    max_deletes: int | None


class _Plan(TypedDict):
    rules: _Rules
    tenants: list[_Entry]


def save_plan(file: Path, outcomes: Sequence[Outcome], rules: Rules) -> None:
    """Write the plans of all tenants; refused ones make no plan to review."""
    failed = [str(one.tenant or one.file) for one in outcomes if one.status is Status.FAILED]
    if failed:
        raise UsageError(f"no plan is written, because these failed: {', '.join(failed)}")
    plan = _Plan(
        rules=_Rules(create_tenants=rules.create_tenants, max_deletes=rules.max_deletes),
        tenants=[_entry(one) for one in outcomes],
    )
    seal(file, OF_DATABASE, cast("JsonObject", plan))


def _entry(outcome: Outcome) -> _Entry:
    plan = outcome.plan
    if plan is None:
        raise ValueError("an outcome that did not fail has a plan")
    return _Entry(
        tenant=plan.wanted.tenant,
        file=outcome.file.as_posix() if outcome.file else "",
        revision=plan.state.revision,
        document=plan.wanted.document,
        source_checksum=plan.wanted.source_checksum,
    )


def load_plan(file: Path) -> SavedPlan:
    """Read a plan file back as what is to be applied."""
    plan = cast("_Plan", unseal(file, OF_DATABASE))
    return SavedPlan([_prepared(entry) for entry in plan["tenants"]], Rules(**plan["rules"]))


def _prepared(entry: _Entry) -> Prepared:
    tenant = TenantId(entry["tenant"])
    wanted = want(tenant, definitions(entry["document"]), entry["source_checksum"])
    reviewed = replace(wanted, reviewed=Reviewed(entry["revision"]))
    return Prepared(Path(entry["file"]), tenant, reviewed, ())
