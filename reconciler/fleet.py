"""Plans and applies the manifests of many tenants.

1. Sources whose checksum a tenant's latest version carries are not checked again; all others are.
2. A tenant that two files declare is refused in both: each would undo the other.
3. The state of all tenants is read with a handful of statements. Tenants with nothing to do end
   here, so applying an unchanged fleet costs reads only.
4. The rest is applied, several tenants at a time, each in a transaction of its own (see `apply`).
   One tenant's failure is its own: it is reported, and the others go on.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy.exc import DBAPIError

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.manifests.files import ManifestFile, declared_in_several
from tenantcron.reconciler.announcing import announcing
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.checking import Check
from tenantcron.reconciler.definition import Stored
from tenantcron.reconciler.drift import find_drift
from tenantcron.reconciler.outcome import Outcome, Status
from tenantcron.reconciler.plan import Rules, Wanted, make_plan
from tenantcron.reconciler.refusals import RefusedError
from tenantcron.reconciler.sources import Prepared, prepared, source_checksums
from tenantcron.reconciler.state import TenantState, read_states
from tenantcron.store import manifest_versions, tenants
from tenantcron.store.engine import Database
from tenantcron.store.explain import first_line
from tenantcron.store.manifest_versions import DocumentedVersion
from tenantcron.store.times import database_time

# As many connections as an apply opens; the work per tenant is mostly the server's.
TENANTS_AT_A_TIME = 8

Progress = Callable[[], None]


async def prepare_all(
    database: Database, files: Sequence[ManifestFile], progress: Progress
) -> list[Prepared]:
    """Check the manifests that the database does not know yet."""
    checksums = source_checksums(files)
    async with database.transaction() as connection:
        now = await database_time(connection)
        caps = await tenants.schedule_caps(connection)
        known = await manifest_versions.made_from(connection, checksums)
    sources = list(zip(files, checksums, strict=True))
    before = [_known(file, known.get(checksum), caps) for file, checksum in sources]
    new = [source for source, one in zip(sources, before, strict=True) if one is None]
    found = []
    async for one in Check(caps, now).all([file for file, _ in new]):
        found.append(one)
        progress()
    fresh = (
        prepared(file, one, checksum) for (file, checksum), one in zip(new, found, strict=True)
    )
    return list(_without_doubles([one or next(fresh) for one in before]))


def _known(
    file: ManifestFile, made: DocumentedVersion | None, caps: Mapping[TenantId, int]
) -> Prepared | None:
    """Return what a source wants that was checked before; only a cap can have moved since."""
    if made is None:
        return None
    tenant, schedules = made.version.tenant_id, Stored(made.schedules, made.count)
    if len(schedules) > caps.get(tenant, file.policy.max_schedules_per_tenant):
        return None
    wanted = Wanted(tenant, schedules, made.version.checksum, made.version.source_checksum)
    return Prepared(file.path, tenant, wanted, ())


def _without_doubles(prepared: Sequence[Prepared]) -> Iterator[Prepared]:
    """Refuse all files of a tenant that has more than one."""
    files = Counter(one.tenant for one in prepared if one.tenant is not None)
    for one in prepared:
        if one.tenant is None or files[one.tenant] == 1:
            yield one
            continue
        double = declared_in_several(one.tenant, files[one.tenant], one.file)
        yield replace(one, wanted=None, diagnostics=(*one.diagnostics, double))


async def plan_all(database: Database, prepared: Sequence[Prepared], rules: Rules) -> list[Outcome]:
    """Plan every tenant; nothing is written."""
    tenant_ids = [one.wanted.tenant for one in prepared if one.wanted is not None]
    states = await read_states(database, tenant_ids)
    outcomes = [_planned(one, states, rules) for one in prepared]
    drift = await find_drift(database, [one.plan for one in outcomes if one.plan is not None])
    return [
        replace(one, drift=drift.get(one.plan.wanted.tenant, ())) if one.plan else one
        for one in outcomes
    ]


async def apply_all(
    applier: Applier, prepared: Sequence[Prepared], progress: Progress
) -> list[Outcome]:
    """Apply every tenant that has something to do, several at a time."""
    planned = await plan_all(applier.database, prepared, applier.rules)
    slots = asyncio.Semaphore(TENANTS_AT_A_TIME)
    # A single tenant's transaction may notify: no other waits for its lock.
    is_fleet = sum(outcome.status is Status.PLANNED for outcome in planned) > 1
    applier = replace(applier, notifies=not is_fleet)

    async def finish(one: Prepared, outcome: Outcome) -> Outcome:
        async with slots:
            done = await _applied(applier, one, outcome)
        if is_fleet and done.status is Status.APPLIED:
            changed()
        progress()
        return done

    pairs = zip(prepared, planned, strict=True)
    async with announcing(applier.database) as changed, asyncio.TaskGroup() as group:
        tasks = [group.create_task(finish(one, outcome)) for one, outcome in pairs]
    return [task.result() for task in tasks]


def _planned(one: Prepared, states: Mapping[TenantId, TenantState], rules: Rules) -> Outcome:
    outcome = Outcome(one.tenant, one.file, Status.FAILED, diagnostics=one.diagnostics)
    if one.wanted is None:
        return replace(outcome, refusal=RefusedError("TC605", "the manifest has errors"))
    try:
        plan = make_plan(one.wanted, states[one.wanted.tenant], rules)
    except RefusedError as refusal:
        return replace(outcome, refusal=refusal)
    status = Status.UNCHANGED if plan.is_empty else Status.PLANNED
    return replace(outcome, status=status, plan=plan)


async def _applied(applier: Applier, one: Prepared, outcome: Outcome) -> Outcome:
    """Apply what is planned; whatever goes wrong with one tenant stays with that tenant."""
    if outcome.status is not Status.PLANNED or one.wanted is None:
        return outcome
    try:
        plan = await applier.apply(one.wanted)
    except RefusedError as refusal:
        return _failed(outcome, refusal)
    except (DBAPIError, TenantcronError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return _failed(outcome, RefusedError("TC606", first_line(cause)))
    status = Status.UNCHANGED if plan.is_empty else Status.APPLIED
    return replace(outcome, status=status, plan=plan)


def _failed(outcome: Outcome, refusal: RefusedError) -> Outcome:
    """Nothing of the plan was carried out, so nothing of it is told."""
    return replace(outcome, status=Status.FAILED, plan=None, drift=(), refusal=refusal)
