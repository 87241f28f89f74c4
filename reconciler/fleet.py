"""Plans and applies the manifests of many tenants.

1. A source is checked unless its checksum is that of a tenant's latest version.
2. If two files declare a tenant, both are refused, because each would undo the other. So all
   sources are prepared before the first one is planned; they are spooled to disk (see `spool`).
3. Tenants are planned in batches, with a few statements per batch. Tenants without changes end
   here, so applying an unchanged fleet only reads.
4. The other tenants of a batch are applied concurrently, each in its own transaction (see `apply`).
   The failure of a tenant is reported and does not affect the others.

Outcomes are yielded batch by batch and not kept. No guard needs more than its tenant. The caller
collects totals and plan files.
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

# The number of connections of an apply; most work per tenant is done by the server.
TENANTS_AT_A_TIME = 8
# The number of files in memory at once.
FILES_A_BATCH = 400
TENANTS_A_BATCH = TENANTS_A_TRANSACTION * TRANSACTIONS_AT_A_TIME

Progress = Callable[[], None]
OnOutcome = Callable[[ReconcileOutcome], None]


def _ignore(_: ReconcileOutcome) -> None:
    """Ignore an outcome."""


async def prepare(
    database: Database,
    files: Iterable[ManifestFile],
    keep: Callable[[Prepared], None],
    checking: Checking,
) -> None:
    """Check the manifests that are new to the database; pass all to `keep` in order."""
    async with database.transaction() as connection:
        now = await database_time(connection)
        caps = await tenants.schedule_caps(connection)
        quotas = await tenants.owner_quotas(connection)
    check = Check(caps, now, quotas)
    for batch in batches(files, FILES_A_BATCH):
        for source in await _prepare_batch(database, batch, checking, check):
            keep(source)


async def prepare_all(
    database: Database, files: Sequence[ManifestFile], progress: Progress, checking: Checking
) -> list[Prepared]:
    """Prepare manifests and return all of them, which takes memory per tenant."""
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
    before = [_known(file, known.get(checksum), check) for file, checksum in sources]
    new = [source for source, found in zip(sources, before, strict=True) if found is None]
    checked = await checking.all(check, [file for file, _ in new])
    fresh = (
        prepared(file, found, checksum)
        for (file, checksum), found in zip(new, checked, strict=True)
    )
    return [found or next(fresh) for found in before]


def _known(file: ManifestFile, made: DocumentedVersion | None, check: Check) -> Prepared | None:
    """Return a source that was checked before, unless it may exceed a cap that changed since."""
    if made is None:
        return None
    tenant, schedules = made.version.tenant_id, Stored(made.schedules, made.count)
    quotas = file.policy.quotas.overridden(check.quotas)
    cap = check.caps.get(tenant, file.policy.cap_of(tenant))
    if len(schedules) > min(cap, quotas.value("schedules_per_owner", tenant)):
        return None
    desired = DesiredState(tenant, schedules, made.version.checksum, made.version.source_checksum)
    return Prepared(file.path, tenant, desired, ())


async def plan_each(
    database: Database, prepared: Iterable[Prepared], rules: Rules
) -> AsyncIterator[ReconcileOutcome]:
    """Plan every tenant in order, without writing."""
    for batch in batches(prepared, TENANTS_A_BATCH):
        for outcome in await _plan_batch(database, batch, rules):
            yield outcome


async def plan_all(
    database: Database, prepared: Iterable[Prepared], rules: Rules
) -> list[ReconcileOutcome]:
    """Plan every tenant and return all outcomes."""
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
    applier: Applier, prepared: Iterable[Prepared], finished: OnOutcome = _ignore
) -> AsyncIterator[ReconcileOutcome]:
    """Apply every tenant with changes, several at a time; yield the outcomes in order.

    `finished` receives an outcome as soon as the tenant is committed or needs no change.
    """
    for batch in batches(prepared, TENANTS_A_BATCH):
        for outcome in await _apply_batch(applier, batch, finished):
            yield outcome


async def apply_all(
    applier: Applier, prepared: Iterable[Prepared], progress: Progress
) -> list[ReconcileOutcome]:
    """Apply every tenant and return all outcomes."""
    outcomes = []
    async for outcome in apply_each(applier, prepared):
        outcomes.append(outcome)
        progress()
    return outcomes


async def _apply_batch(
    applier: Applier, batch: Sequence[Prepared], finished: OnOutcome
) -> list[ReconcileOutcome]:
    planned = await _plan_batch(applier.database, batch, applier.rules)
    slots = asyncio.Semaphore(TENANTS_AT_A_TIME)
    # A single tenant notifies in its own transaction, because no other waits for the lock.
    is_fleet = sum(outcome.status is Status.PLANNED for outcome in planned) > 1
    applier = replace(applier, notifies=not is_fleet)

    async def finish(prepared: Prepared, outcome: ReconcileOutcome) -> ReconcileOutcome:
        async with slots:
            done = await _applied(applier, prepared, outcome)
        if done.status is not Status.FAILED:
            finished(done)
        if is_fleet and done.status is Status.APPLIED:
            changed()
        return done

    pairs = zip(batch, planned, strict=True)
    async with announcing(applier.database) as changed, asyncio.TaskGroup() as group:
        tasks = [group.create_task(finish(*pair)) for pair in pairs]
    return [task.result() for task in tasks]


def _planned(
    prepared: Prepared, states: Mapping[TenantId, LiveState], rules: Rules
) -> ReconcileOutcome:
    outcome = ReconcileOutcome(
        prepared.tenant, prepared.file, Status.FAILED, diagnostics=prepared.diagnostics
    )
    if prepared.desired is None:
        return replace(outcome, refusal=RefusedError("TC605", "the manifest has errors"))
    try:
        plan = make_plan(prepared.desired, states[prepared.desired.tenant], rules)
    except RefusedError as refusal:
        return replace(outcome, refusal=refusal)
    status = Status.UNCHANGED if plan.is_empty else Status.PLANNED
    return replace(outcome, status=status, plan=plan)


async def _applied(
    applier: Applier, prepared: Prepared, outcome: ReconcileOutcome
) -> ReconcileOutcome:
    """Apply a planned tenant; its failure does not affect other tenants."""
    if outcome.status is not Status.PLANNED or prepared.desired is None:
        return outcome
    try:
        plan = await applier.apply(prepared.desired)
    except RefusedError as refusal:
        return _failed(outcome, refusal)
    except (DBAPIError, TenantcronError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return _failed(outcome, RefusedError("TC606", first_line(cause)))
    status = Status.UNCHANGED if plan.is_empty else Status.APPLIED
    return replace(outcome, status=status, plan=plan)


def _failed(outcome: ReconcileOutcome, refusal: RefusedError) -> ReconcileOutcome:
    """Return a failed outcome without its plan, because nothing was applied."""
    return replace(outcome, status=Status.FAILED, plan=None, drift=(), refusal=refusal)
