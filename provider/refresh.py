"""Refresh: brings the cursors in line with what a provider has.

One batch of tenants is one transaction, with a fixed number of statements however many schedules
there are:

1. The provider returns tenants with all their schedules, locked.
2. Their cursors of this provider are locked and read, in the order of their ids. Whoever fires
   passes over them for that long.
3. `compare` says which cursors are new, changed or gone. If there are none, nothing is written.
4. Deletes come first, so that a schedule that was deleted and made anew finds its name free; then
   the changes, then the new ones. Whatever another provider's cursor keeps out is reported.
5. Pending executions of a schedule that gets another saga or target, and has not begun, follow it;
   those of schedules that are gone or disabled are ended, with the reason.
6. The provider is told what became of each tenant, and the batch is committed.

Killed at any point: what was committed is done, the rest is still on the provider's list. Two
replicas at once share the batches; neither sees the other's tenants.

A backend remembers every table that it has read, some 26 kB a tenant. So after a thousand tenants
the connection is given up for a new one.
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
from tenantcron.provider.align import Circumstances, align, set_aside
from tenantcron.provider.protocol import (
    TENANTS_A_BATCH,
    ProvidedSchedule,
    ProvidedTenant,
    ScheduleProvider,
)
from tenantcron.store import (
    executions,
    requirements,
    schedule_cursors,
    schedule_definitions,
    times,
)
from tenantcron.store.backends import wear_out
from tenantcron.store.engine import Database
from tenantcron.store.executions import State
from tenantcron.store.requirements import Runner
from tenantcron.store.schedule_cursors import CursorRow
from tenantcron.store.tenants import Scope, Synced

BATCHES_A_CONNECTION = 20
BATCHES_AT_A_TIME = 2


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did, and the tenants that cannot be followed in full, with why."""

    tenants: int = 0
    created: int = 0
    updated: int = 0
    removed: int = 0
    broken: dict[TenantId, str] = field(default_factory=dict)
    # Executions that waited and will not start, by how they ended and why.
    ended: Counter[tuple[State, str]] = field(default_factory=Counter)

    def __add__(self, other: "Refreshed") -> "Refreshed":
        """Sum up two batches."""
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
    # Only a hand renames. Two may have swapped their names, so they are taken out and put back.
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
    """Bring the cursors of all tenants that have moved in line, batch by batch.

    `retry_broken` looks again at tenants that could not be followed, as the periodic refresh does.
    `everything` looks at all tenants, also those that have not moved: it mends what somebody did to
    the cursors by hand.
    """
    scope = Scope.MOVED_OR_BROKEN if retry_broken else Scope.MOVED
    scope = Scope.ALL if everything else scope
    if scope is Scope.MOVED_OR_BROKEN and not await provider.has_moved(database):
        return Refreshed()
    walk = _Walk(database, provider, scope, at)
    if first := await walk.follow_batch():
        # Few tenants have moved as a rule: a second batch at a time is for a fleet.
        await walk.follow_all(BATCHES_AT_A_TIME if first == TENANTS_A_BATCH else 1)
    return walk.done


class _Walk:
    """One refresh on its way through the tenants, in the order of their ids.

    Two batches are under way at a time: the server reads one while the other is compared here. They
    are taken one after the other, so no tenant is taken twice.
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

    async def follow_all(self, at_a_time: int) -> None:
        """Follow batch after batch until none is left, so many at a time."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(at_a_time):
                    group.create_task(self._follow_rest())
        except ExceptionGroup as failed:
            # What keeps one transaction from its work, such as a lost server, keeps both.
            raise failed.exceptions[0] from failed

    async def _follow_rest(self) -> None:
        while await self.follow_batch():
            pass

    async def follow_batch(self) -> int:
        """Follow the next batch in one transaction; return how many tenants it had."""
        async with self._database.transaction() as connection:
            async with self._turn:
                batch = await self._provider.tenants(connection, self._scope, self._after)
                self._after = batch[-1].tenant_id if batch else self._after
            if not batch:
                return 0
            followed = await _follow(connection, self._provider, batch, self._at)
            wear_out(connection, BATCHES_A_CONNECTION)
        self.done += followed
        return len(batch)


async def _follow(
    connection: AsyncConnection,
    provider: ScheduleProvider,
    batch: Sequence[ProvidedTenant],
    at: datetime | None,
) -> Refreshed:
    now = await times.moment(connection, at)
    ids = [tenant.tenant_id for tenant in batch]
    cursors = await schedule_cursors.lock(connection, provider.name, ids)
    changes = compare(provider.name, batch, cursors, now)
    kept_out = await _write(connection, batch, changes)
    await _follow_runners(connection, batch, changes, cursors)
    ended = await _end_waiting(connection, changes, at)
    reports = _reports(batch, kept_out)
    await provider.settle(
        connection,
        [
            Synced(one.tenant_id, one.revision, reports.get(one.tenant_id))
            for one in batch
            if not one.is_locked
        ],
    )
    return Refreshed(
        tenants=len(batch),
        created=len(changes.new) - len(kept_out),
        updated=len(changes.changed) + len(changes.renamed),
        removed=len(changes.gone),
        broken=reports,
        ended=ended,
    )


def compare(
    provider: str, batch: Iterable[ProvidedTenant], cursors: Iterable[CursorRow], now: datetime
) -> Changes:
    """Return what must be written so that the cursors follow the schedules."""
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
        held = ((cursor, set_aside(cursor, tenant.fault)) for cursor in cursors.values())
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
    """Write the changes; return the cursors that another one keeps out."""
    coming, going = [*changes.renamed, *changes.new], [row.schedule_id for row in changes.renamed]
    await schedule_definitions.add(connection, _definitions(batch, changes))
    await schedule_cursors.remove(connection, [*changes.gone, *going])
    await schedule_cursors.change(connection, changes.changed)
    added = await schedule_cursors.add(connection, coming)
    return [row for row in coming if (row.tenant_id, row.schedule_id) not in added]


async def _follow_runners(
    connection: AsyncConnection,
    batch: Sequence[ProvidedTenant],
    changes: Changes,
    before: Sequence[CursorRow],
) -> None:
    """Pending executions follow a schedule that gets another saga or target.

    Otherwise a manifest that is fixed would leave behind what waits for a runner that never comes.
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
    """What waits of a schedule that is gone or disabled will not start; what runs may end."""
    skip_waiting = partial(executions.skip_waiting, connection)
    removed = await skip_waiting(changes.gone, "schedule removed", at, manual=True)
    kept = (*changes.changed, *changes.renamed)
    disabled = [row.schedule_id for row in kept if not row.enabled]
    return removed + await skip_waiting(disabled, "schedule disabled", at)


def _definitions(batch: Iterable[ProvidedTenant], changes: Changes) -> dict[UUID, JsonObject]:
    """Return the definitions that the changes name; what is not an object is never run."""
    written = (*changes.new, *changes.changed, *changes.renamed)
    rows = {(row.tenant_id, row.schedule_id): row for row in written}
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


def _reports(batch: Iterable[ProvidedTenant], kept_out: Iterable[CursorRow]) -> dict[TenantId, str]:
    """Put into words why tenants cannot be followed in full."""
    words: dict[TenantId, list[str]] = {
        tenant.tenant_id: [*([tenant.fault] if tenant.fault else []), *tenant.refused]
        for tenant in batch
    }
    for row in kept_out:
        words[row.tenant_id].append(
            f"schedule `{row.schedule_name}`: another provider has one of this name for the "
            "tenant, or another tenant one of this id"
        )
    return {tenant_id: "; ".join(some) for tenant_id, some in words.items() if some}
