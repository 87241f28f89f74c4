"""Drift: live schedules that differ from the last applied version after a manual change."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.reconciler.diff import Action, ScheduleChange, diff
from tenantcron.reconciler.document import definitions
from tenantcron.reconciler.plan import Plan
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, manifest_versions
from tenantcron.store.rows.audit_records import Touch

# A version has a few kilobytes, so a result stays below a few megabytes.
DOCUMENTS_A_STATEMENT = 200


@dataclass(frozen=True, slots=True)
class Drift:
    """The change of a schedule from its applied to its live definition, and its actor if known."""

    change: ScheduleChange
    touch: Touch | None


async def find_drift(
    database: Database, plans: Sequence[Plan]
) -> dict[TenantId, tuple[Drift, ...]]:
    """Return the drift by tenant; a tenant with an empty plan has none."""
    suspects = [plan for plan in plans if plan.state.version is not None and not plan.is_empty]
    versions = [plan.state.version.id for plan in suspects if plan.state.version is not None]
    documents = await _documents(database, versions)
    drifted = {plan.desired.tenant: _changes(plan, documents) for plan in suspects}
    return {
        plan.desired.tenant: await _explained(database, plan, changes)
        for plan in suspects
        if (changes := drifted[plan.desired.tenant])
    }


async def _documents(database: Database, version_ids: Sequence[UUID]) -> dict[UUID, JsonObject]:
    found: dict[UUID, JsonObject] = {}
    for start in range(0, len(version_ids), DOCUMENTS_A_STATEMENT):
        chunk = version_ids[start : start + DOCUMENTS_A_STATEMENT]
        async with database.transaction() as connection:
            found |= await manifest_versions.documents(connection, chunk)
    return found


def _changes(plan: Plan, documents: Mapping[UUID, JsonObject]) -> tuple[ScheduleChange, ...]:
    version = plan.state.version
    if version is None or version.id not in documents:
        return ()
    return diff(plan.state.live, definitions(documents[version.id])).changes


async def _explained(
    database: Database, plan: Plan, changes: Collection[ScheduleChange]
) -> tuple[Drift, ...]:
    """Add the actor of each change, with a query per drifted tenant only."""
    if plan.state.tenant is None:
        return ()
    names = [change.schedule for change in changes]
    async with database.transaction() as connection:
        schema = plan.state.tenant.schema_name
        touches = await audit_records.last_touches(connection, schema, names)
    return tuple(_with_touches(changes, touches))


def _with_touches(
    changes: Collection[ScheduleChange], touches: Mapping[str, Touch]
) -> Iterator[Drift]:
    """Omit actors of other operations: the last record of a renamed row is under its old name."""
    for change in changes:
        touch = touches.get(change.schedule)
        is_delete = change.action is Action.DELETE
        matches = touch is not None and is_delete == (touch.operation == Action.DELETE)
        yield Drift(change, touch if matches else None)
