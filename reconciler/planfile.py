"""Saved plans: what was reviewed, bound to the state that it was made from.

A plan file holds, per tenant, the document that is wanted and the tenant's revision, and what the
apply may do besides. Applying it applies exactly these documents, and only to tenants whose
revision has not moved.
"""

from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, cast

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.definition import Document, definitions
from tenantcron.reconciler.outcome import Outcome, Status
from tenantcron.reconciler.plan import Reviewed, Rules, want
from tenantcron.reconciler.sealed import OF_DATABASE, SealedList, unseal_list
from tenantcron.reconciler.sources import Prepared
from tenantcron.reconciler.spool import Spool


class _Entry(TypedDict):
    tenant: str
    file: str
    revision: int | None
    document: Document
    source_checksum: str


class _Rules(TypedDict):
    create_tenants: bool
    max_deletes: int | None


class _Head(TypedDict):
    rules: _Rules


class PlanWriter:
    """Takes outcomes one by one, and writes a plan file of them; memory holds one at a time."""

    def __init__(self, file: Path, rules: Rules) -> None:
        self._file = file
        allowed = _Rules(create_tenants=rules.create_tenants, max_deletes=rules.max_deletes)
        head = cast("JsonObject", {"rules": allowed})
        self._plan = SealedList(OF_DATABASE, head, "tenants")
        self._is_complete = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._plan.close()

    def add(self, outcome: Outcome) -> None:
        """Add a tenant's plan; one that was refused makes no plan to review."""
        if outcome.status is Status.FAILED:
            self._is_complete = False
        elif self._is_complete:
            self._plan.add(cast("JsonObject", _entry(outcome)))

    def finish(self) -> None:
        """Write the file, unless a tenant was refused."""
        if self._is_complete:
            self._plan.write(self._file)


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


def load_plan(file: Path, spool: Spool) -> Rules:
    """Add what a plan file wants to the spool; return what the apply may do."""

    def keep(entry: JsonValue) -> None:
        spool.add(_prepared(cast("_Entry", entry)))

    head = unseal_list(file, OF_DATABASE, "tenants", keep)
    return Rules(**cast("_Head", head)["rules"])


def _prepared(entry: _Entry) -> Prepared:
    tenant = TenantId(entry["tenant"])
    wanted = want(tenant, definitions(entry["document"]), entry["source_checksum"])
    reviewed = replace(wanted, reviewed=Reviewed(entry["revision"]))
    return Prepared(Path(entry["file"]), tenant, reviewed, ())
