"""Refresh: sync the cursors with a provider.

One batch of tenants is one transaction, with a fixed number of statements however many schedules
there are:

1. The provider returns tenants with all their schedules, locked.
2. Their cursors of this provider are locked and read, ordered by id. The fire step skips them
   meanwhile.
3. `compare` returns which cursors are new, changed or gone. If there are none, nothing is written.
4. Deletes come first, so that a schedule that was deleted and created again finds its name free;
   then the changes, then the new ones. A cursor that conflicts with one of another provider is
   reported.
5. Executions that have not started are moved to the new definition if their schedule gets another
   saga or target. Pending executions of removed or disabled schedules are ended, with the reason.
6. The provider receives the result for each tenant, and the batch is committed.

Killed at any point: what was committed is done, and the provider still returns the rest. Two
replicas at once share the batches; neither sees the other's tenants.

A backend caches every table that it has read, about 26 kB per tenant. So the connection is replaced
after a thousand tenants.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.requirements import requirement, target_kind
from tenantcron.core.values import JsonObject
from tenantcron.cron.zones import tz_version
from tenantcron.provider.align import Circumstances, align, quarantine
from tenantcron.provider.protocol import (
    TENANTS_A_BATCH,
    ProvidedSchedule,
    ProvidedTenant,
    ScheduleProvider,
)
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.connection import times
from tenantcron.store.connection.backends import replace_after_uses
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import executions, schedule_cursors, schedule_definitions
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.tenants import Scope, Synced
from tenantcron.store.steps import requirements
from tenantcron.store.steps.requirements import Runner

BATCHES_A_CONNECTION = 20
BATCHES_AT_A_TIME = 2


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The result of a refresh, and the tenants that could not be synced, with reasons."""

    tenants: int = 0
    created: int = 0
    updated: int = 0
    removed: int = 0
    broken: dict[TenantId, str] = field(default_factory=dict)
    # Pending executions that were ended, by final state and reason.
    ended: Counter[tuple[State, str]] = field(default_factory=Counter)

    def __add__(self, other: "Refreshed") -> "Refreshed":
        """Add the results of two batches."""
        return Refreshed(
            self.tenants + other.tenants,
            self.created + other.created,
            self.updated + other.updated,
            self.removed + other.removed,
            self.broken | other.broken,
            self.ended + other.ended,
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """The cursors of a batch that must be written."""

    new: list[CursorRow] = field(default_factory=list)
    changed: list[CursorRow] = field(default_factory=list)
    # Only manual changes rename. Two schedules may have swapped names, so they are removed and
    # added again.
    renamed: list[CursorRow] = field(default_factory=list)
    gone: list[UUID] = field(default_factory=list)


async def refresh(
    database: Database,
    provider: ScheduleProvider,
    *,
    at: datetime | None = None,
    retry_broken: bool = False,
    everything: bool = False,
) -> Refreshed:
    """Sync the cursors of all changed tenants, batch by batch.

    `retry_broken` tries tenants again that could not be synced, as the periodic refresh does.
    `everything` compares all tenants, changed or not: it fixes manual changes of the cursors.
    """
    scope = Scope.MOVED_OR_BROKEN if retry_broken else Scope.MOVED
    scope = Scope.ALL if everything else scope
    if scope is Scope.MOVED_OR_BROKEN and not await provider.has_moved(database):
        return Refreshed()
    walk = _Walk(database, provider, scope, at)
    if first := await walk.sync_batch():
        # Usually few tenants have changed: a second concurrent batch is for a fleet.
        await walk.sync_all(BATCHES_AT_A_TIME if first == TENANTS_A_BATCH else 1)
    return walk.done


class _Walk:
    """A refresh on its way through the tenants, ordered by id.

    Two batches are in progress at a time: the server reads one while the other is compared here.
    They are taken one after the other, so no tenant is taken twice.
    """

    def __init__(
        self,
        database: Database,
        provider: ScheduleProvider,
        scope: Scope,
        at: datetime | None,
    ) -> None:
        self._database, self._provider = database, provider
        self._scope, self._at = scope, at
        self._after: TenantId | None = None
        self._turn = asyncio.Lock()
        self.done = Refreshed()

    async def sync_all(self, at_a_time: int) -> None:
        """Sync batch after batch until none is left, with this concurrency."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_a_time):
                    group.create_task(self._sync_rest())
        except ExceptionGroup as failed:
            # A cause that fails one transaction, such as a lost server, fails both.
            raise failed.exceptions[0] from failed

    async def _sync_rest(self) -> None:
        while await self.sync_batch():
            pass

    async def sync_batch(self) -> int:
        """Sync the next batch in one transaction; return its number of tenants."""
        async with self._database.transaction() as connection:
            async with self._turn:
                batch = await self._provider.tenants(connection, self._scope, self._after)
                self._after = batch[-1].tenant_id if batch else self._after
            if not batch:
                return 0
            synced = await _sync(connection, self._provider, batch, self._at)
            replace_after_uses(connection, BATCHES_A_CONNECTION)
        self.done += synced
        return len(batch)


async def _sync(
    connection: AsyncConnection,
    provider: ScheduleProvider,
    batch: Sequence[ProvidedTenant],
    at: datetime | None,
) -> Refreshed:
    now = await times.moment(connection, at)
    ids = [tenant.tenant_id for tenant in batch]
    cursors = await schedule_cursors.lock(connection, provider.name, ids)
    changes = compare(provider.name, batch, cursors, now)
    conflicts = await _write(connection, batch, changes)
    await _move_pending(connection, batch, changes, cursors)
    ended = await _end_waiting(connection, changes, at)
    reports = _reports(batch, conflicts)
    await provider.settle(
        connection,
        [
            Synced(tenant.tenant_id, tenant.revision, reports.get(tenant.tenant_id))
            for tenant in batch
            if not tenant.is_locked
        ],
    )
    return Refreshed(
        tenants=len(batch),
        created=len(changes.new) - len(conflicts),
        updated=len(changes.changed) + len(changes.renamed),
        removed=len(changes.gone),
        broken=reports,
        ended=ended,
    )


def compare(
    provider: str, batch: Iterable[ProvidedTenant], cursors: Iterable[CursorRow], now: datetime
) -> Changes:
    """Return what must be written to sync the cursors with the schedules."""
    of_tenant: dict[TenantId, dict[UUID, CursorRow]] = {}
    for cursor in cursors:
        of_tenant.setdefault(cursor.tenant_id, {})[cursor.schedule_id] = cursor
    changes, zones = Changes(), tz_version()
    for tenant in batch:
        found = of_tenant.get(tenant.tenant_id, {})
        returned_at = None if found else tenant.returned_at
        circumstances = Circumstances(provider, tenant.tenant_id, now, zones, returned_at)
        _compare_tenant(tenant, found, circumstances, changes)
    return changes


def _compare_tenant(
    tenant: ProvidedTenant,
    cursors: dict[UUID, CursorRow],
    circumstances: Circumstances,
    changes: Changes,
) -> None:
    if tenant.is_locked:
        return
    if tenant.fault is not None:
        held = ((cursor, quarantine(cursor)) for cursor in cursors.values())
        changes.changed.extend(after for before, after in held if after != before)
        return
    for schedule in tenant.schedules:
        before = cursors.get(schedule.schedule_id)
        after = align(schedule, before, circumstances)
        if before is None:
            changes.new.append(after)
        elif after.schedule_name != before.schedule_name:
            changes.renamed.append(after)
        elif after != before:
            changes.changed.append(after)
    named = {schedule.schedule_id for schedule in tenant.schedules}
    changes.gone.extend(cursors.keys() - named)


async def _write(
    connection: AsyncConnection, batch: Sequence[ProvidedTenant], changes: Changes
) -> list[CursorRow]:
    """Write the changes; return the cursors that conflict with another one."""
    coming, going = [*changes.renamed, *changes.new], [row.schedule_id for row in changes.renamed]
    await schedule_definitions.add(connection, _definitions(batch, changes))
    await schedule_cursors.remove(connection, [*changes.gone, *going])
    await schedule_cursors.change(connection, changes.changed)
    added = await schedule_cursors.add(connection, coming)
    return [row for row in coming if (row.tenant_id, row.schedule_id) not in added]


async def _move_pending(
    connection: AsyncConnection,
    batch: Sequence[ProvidedTenant],
    changes: Changes,
    before: Sequence[CursorRow],
) -> None:
    """Move pending executions to the new saga or target of their schedule.

    Otherwise they would wait for a runner that never comes, even after the manifest is fixed.
    """
    were = {row.schedule_id: (row.saga_name, row.definition_id) for row in before}
    moved = [
        row
        for row in (*changes.changed, *changes.renamed)
        if were.get(row.schedule_id) != (row.saga_name, row.definition_id)
    ]
    definitions = _definitions(batch, changes) if moved else {}
    readable = (row for row in moved if row.definition_id in definitions)
    runners = [_runner(row, definitions[row.definition_id]) for row in readable]
    await requirements.follow(connection, runners)


def _runner(row: CursorRow, definition: JsonObject) -> Runner:
    requires = requirement(row.saga_name, target_kind(definition))
    return Runner(row.tenant_id, row.schedule_id, row.saga_name, row.definition_id, requires)


async def _end_waiting(
    connection: AsyncConnection, changes: Changes, at: datetime | None
) -> Counter[tuple[State, str]]:
    """End pending executions of removed or disabled schedules; running ones may finish."""
    skip_waiting = partial(executions.skip_waiting, connection)
    removed = await skip_waiting(changes.gone, ReasonCode.REMOVED, at, manual=True)
    kept = (*changes.changed, *changes.renamed)
    disabled = [row.schedule_id for row in kept if not row.enabled]
    return removed + await skip_waiting(disabled, ReasonCode.DISABLED, at)


def _definitions(batch: Iterable[ProvidedTenant], changes: Changes) -> dict[UUID, JsonObject]:
    """Return the definitions of the changes; one that is not an object is never run."""
    cursors = (*changes.new, *changes.changed, *changes.renamed)
    rows = {(row.tenant_id, row.schedule_id): row for row in cursors}
    found: dict[UUID, JsonObject] = {}
    for tenant_id, schedule in _schedules(batch) if rows else ():
        row = rows.get((tenant_id, schedule.schedule_id))
        if row is not None and isinstance(schedule.definition, dict):
            found[row.definition_id] = schedule.definition
    return found


def _schedules(batch: Iterable[ProvidedTenant]) -> Iterator[tuple[TenantId, ProvidedSchedule]]:
    for tenant in batch:
        for schedule in tenant.schedules:
            yield tenant.tenant_id, schedule


def _reports(
    batch: Iterable[ProvidedTenant], conflicts: Iterable[CursorRow]
) -> dict[TenantId, str]:
    """Describe why tenants could not be synced completely."""
    reasons: dict[TenantId, list[str]] = {
        tenant.tenant_id: [*([tenant.fault] if tenant.fault else []), *tenant.refused]
        for tenant in batch
    }
    for row in conflicts:
        reasons[row.tenant_id].append(
            f"schedule `{row.schedule_name}`: another provider has one of this name for the "
            "tenant, or another tenant one of this id"
        )
    return {tenant_id: "; ".join(texts) for tenant_id, texts in reasons.items() if texts}
