"""Drift: where live is not what was applied last, because somebody changed it by other means."""

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

# As JSON a version has some kilobytes, so this keeps an answer below a few megabytes.
DOCUMENTS_A_STATEMENT = 200


@dataclass(frozen=True, slots=True)
class Drift:
    """One schedule's way from what was applied to what is live, and who did it if that is known."""

    change: ScheduleChange
    touch: Touch | None


async def find_drift(
    database: Database, plans: Sequence[Plan]
) -> dict[TenantId, tuple[Drift, ...]]:
    """Return the drift of each tenant that has any; where there is nothing to do, there is none."""
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
        some = version_ids[start : start + DOCUMENTS_A_STATEMENT]
        async with database.transaction() as connection:
            found |= await manifest_versions.documents(connection, some)
    return found


def _changes(plan: Plan, documents: Mapping[UUID, JsonObject]) -> tuple[ScheduleChange, ...]:
    version = plan.state.version
    if version is None or version.id not in documents:
        return ()
    return diff(plan.state.live, definitions(documents[version.id])).changes


async def _explained(
    database: Database, plan: Plan, changes: Collection[ScheduleChange]
) -> tuple[Drift, ...]:
    """Add who made the drift; few tenants have any, so this is no query per tenant."""
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
    """Leave out touches that do not tell: under its old name, a renamed row was last applied."""
    for change in changes:
        touch = touches.get(change.schedule)
        gone = change.action is Action.DELETE
        tells = touch is not None and gone == (touch.operation == Action.DELETE)
        yield Drift(change, touch if tells else None)
