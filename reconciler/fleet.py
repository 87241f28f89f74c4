"""Plans and applies the manifests of many tenants.

1. Sources whose checksum a tenant's latest version carries are not checked again; all others are.
2. A tenant that two files declare is refused in both: each would undo the other. So all sources are
   prepared before the first is planned; meanwhile they wait on disk (see `spool`).
3. Tenants are planned batch by batch, with a handful of statements each. Tenants with nothing to do
   end here, so applying an unchanged fleet costs reads only.
4. The rest of a batch is applied, several tenants at a time, each in a transaction of its own (see
   `apply`). One tenant's failure is its own: it is reported, and the others go on.

Outcomes are handed over batch by batch and not kept. No guard looks beyond its tenant, so none
needs the fleet; what does (totals, a plan file) is added up by the caller.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy.exc import DBAPIError

from tenantcron.core.batches import batches
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.manifests.files import ManifestFile
from tenantcron.reconciler.announcing import announcing
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.checking import Check, Checking
from tenantcron.reconciler.document import Stored
from tenantcron.reconciler.drift import find_drift
from tenantcron.reconciler.outcome import ReconcileOutcome, Status
from tenantcron.reconciler.plan import DesiredState, Rules, make_plan
from tenantcron.reconciler.refusals import RefusedError
from tenantcron.reconciler.sources import Prepared, prepared, source_checksums
from tenantcron.reconciler.spool import Spool
from tenantcron.reconciler.state import (
    TENANTS_A_TRANSACTION,
    TRANSACTIONS_AT_A_TIME,
    LiveState,
    read_states,
)
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import manifest_versions, tenants
from tenantcron.store.rows.manifest_versions import DocumentedVersion

# As many connections as an apply opens; the work per tenant is mostly the server's.
TENANTS_AT_A_TIME = 8
# What is held in memory at once.
FILES_A_BATCH = 400
TENANTS_A_BATCH = TENANTS_A_TRANSACTION * TRANSACTIONS_AT_A_TIME

Progress = Callable[[], None]


async def prepare(
    database: Database,
    files: Iterable[ManifestFile],
    keep: Callable[[Prepared], None],
    checking: Checking,
) -> None:
    """Check the manifests that the database does not know yet; hand over all in their order."""
    async with database.transaction() as connection:
        now = await database_time(connection)
        caps = await tenants.schedule_caps(connection)
    check = Check(caps, now)
    for batch in batches(files, FILES_A_BATCH):
        for source in await _prepare_batch(database, batch, checking, check):
            keep(source)


async def prepare_all(
    database: Database, files: Sequence[ManifestFile], progress: Progress, checking: Checking
) -> list[Prepared]:
    """Prepare the manifests of few tenants, or of many where memory does not matter."""
    with Spool() as spool:

        def keep(prepared: Prepared) -> None:
            spool.add(prepared)
            progress()

        await prepare(database, files, keep, checking)
        return list(spool)


async def _prepare_batch(
    database: Database, files: Sequence[ManifestFile], checking: Checking, check: Check
) -> list[Prepared]:
    checksums = source_checksums(files)
    async with database.transaction() as connection:
        known = await manifest_versions.made_from(connection, checksums)
    sources = list(zip(files, checksums, strict=True))
    before = [_known(file, known.get(checksum), check.caps) for file, checksum in sources]
    new = [source for source, found in zip(sources, before, strict=True) if found is None]
    checked = await checking.all(check, [file for file, _ in new])
    fresh = (
        prepared(file, found, checksum)
        for (file, checksum), found in zip(new, checked, strict=True)
    )
    return [found or next(fresh) for found in before]


def _known(
    file: ManifestFile, made: DocumentedVersion | None, caps: Mapping[TenantId, int]
) -> Prepared | None:
    """Return what a source wants that was checked before; only a cap can have moved since."""
    if made is None:
        return None
    tenant, schedules = made.version.tenant_id, Stored(made.schedules, made.count)
    if len(schedules) > caps.get(tenant, file.policy.max_schedules_per_tenant):
        return None
    desired = DesiredState(tenant, schedules, made.version.checksum, made.version.source_checksum)
    return Prepared(file.path, tenant, desired, ())


async def plan_each(
    database: Database, prepared: Iterable[Prepared], rules: Rules
) -> AsyncIterator[ReconcileOutcome]:
    """Plan every tenant, in their order; nothing is written."""
    for batch in batches(prepared, TENANTS_A_BATCH):
        for outcome in await _plan_batch(database, batch, rules):
            yield outcome


async def plan_all(
    database: Database, prepared: Iterable[Prepared], rules: Rules
) -> list[ReconcileOutcome]:
    """Plan every tenant, and keep all outcomes."""
    return [outcome async for outcome in plan_each(database, prepared, rules)]


async def _plan_batch(
    database: Database, batch: Sequence[Prepared], rules: Rules
) -> list[ReconcileOutcome]:
    tenant_ids = [prepared.desired.tenant for prepared in batch if prepared.desired is not None]
    states = await read_states(database, tenant_ids)
    outcomes = [_planned(prepared, states, rules) for prepared in batch]
    plans = [outcome.plan for outcome in outcomes if outcome.plan is not None]
    drift = await find_drift(database, plans)
    return [
        replace(outcome, drift=drift.get(outcome.plan.desired.tenant, ()))
        if outcome.plan
        else outcome
        for outcome in outcomes
    ]


async def apply_each(
    applier: Applier, prepared: Iterable[Prepared]
) -> AsyncIterator[ReconcileOutcome]:
    """Apply every tenant that has something to do, several at a time; yield in their order."""
    for batch in batches(prepared, TENANTS_A_BATCH):
        for outcome in await _apply_batch(applier, batch):
            yield outcome


async def apply_all(
    applier: Applier, prepared: Iterable[Prepared], progress: Progress
) -> list[ReconcileOutcome]:
    """Apply every tenant, and keep all outcomes."""
    outcomes = []
    async for outcome in apply_each(applier, prepared):
        outcomes.append(outcome)
        progress()
    return outcomes


async def _apply_batch(applier: Applier, batch: Sequence[Prepared]) -> list[ReconcileOutcome]:
    planned = await _plan_batch(applier.database, batch, applier.rules)
    slots = asyncio.Semaphore(TENANTS_AT_A_TIME)
    # A single tenant's transaction may notify: no other waits for its lock.
    is_fleet = sum(outcome.status is Status.PLANNED for outcome in planned) > 1
    applier = replace(applier, notifies=not is_fleet)

    async def finish(prepared: Prepared, outcome: ReconcileOutcome) -> ReconcileOutcome:
        async with slots:
            done = await _applied(applier, prepared, outcome)
        if is_fleet and done.status is Status.APPLIED:
            changed()
        return done

    pairs = zip(batch, planned, strict=True)
    async with announcing(applier.database) as changed, asyncio.TaskGroup() as group:
        tasks = [group.create_task(finish(*pair)) for pair in pairs]
    return [task.result() for task in tasks]


def _planned(one: Prepared, states: Mapping[TenantId, LiveState], rules: Rules) -> ReconcileOutcome:
    outcome = ReconcileOutcome(one.tenant, one.file, Status.FAILED, diagnostics=one.diagnostics)
    if one.desired is None:
        return replace(outcome, refusal=RefusedError("TC605", "the manifest has errors"))
    try:
        plan = make_plan(one.desired, states[one.desired.tenant], rules)
    except RefusedError as refusal:
        return replace(outcome, refusal=refusal)
    status = Status.UNCHANGED if plan.is_empty else Status.PLANNED
    return replace(outcome, status=status, plan=plan)


async def _applied(applier: Applier, one: Prepared, outcome: ReconcileOutcome) -> ReconcileOutcome:
    """Apply what is planned; whatever goes wrong with one tenant stays with that tenant."""
    if outcome.status is not Status.PLANNED or one.desired is None:
        return outcome
    try:
        plan = await applier.apply(one.desired)
    except RefusedError as refusal:
        return _failed(outcome, refusal)
    except (DBAPIError, TenantcronError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return _failed(outcome, RefusedError("TC606", first_line(cause)))
    status = Status.UNCHANGED if plan.is_empty else Status.APPLIED
    return replace(outcome, status=status, plan=plan)


def _failed(outcome: ReconcileOutcome, refusal: RefusedError) -> ReconcileOutcome:
    """Nothing of the plan was carried out, so nothing of it is told."""
    return replace(outcome, status=Status.FAILED, plan=None, drift=(), refusal=refusal)
