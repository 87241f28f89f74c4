"""Operate: manual operations on schedules and executions.

Each operation is one transaction. It begins by setting the actor, so the database records who made
the change. Before the transaction, cursors are synced with schedules: a pause must not be set on a
cursor that is about to be replaced, and a new schedule may not have a cursor yet.

- **Pause** stops the schedule from firing. It changes the cursor, which firing locks, so nothing is
  fired after it. Pending and running executions continue, their retries included. On request it
  also ends pending executions, except those that were triggered manually.
- **Resume** fires nothing. Occurrences that became due during the pause while no scheduler ran are
  recorded as skipped, and the cursor moves past them, before the pause is lifted. So they cannot
  return as catch-up. Occurrences after the end of a temporary pause are not affected.
- **Trigger** creates an execution outside the timetable. Limits and overlap apply, but it has no
  start deadline. A pause does not delay it. A quarantined schedule cannot be triggered.
- **Retry** queues an ended execution again, with the full number of attempts of its definition,
  unless the claim would end it at once. Triggers and retries never replace a running execution.
- **Cancel** ends a pending execution. A running one is asked to stop, and its worker ends it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import AnyActor, scheduler_actor
from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.core.settings import Settings
from tenantcron.core.values import JsonObject
from tenantcron.core.words import in_utc
from tenantcron.cron.zones import tz_version
from tenantcron.provider.refresh import refresh
from tenantcron.provider.schedule_limits import Bounds
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.inspect.schedule_status import existing_tenant, unknown_schedule
from tenantcron.scheduler.operate.execution_lookup import find_execution, locked
from tenantcron.scheduler.operate.refusals import (
    OperationError,
    refuse_cancel,
    refuse_closed,
    refuse_quarantined,
)
from tenantcron.scheduler.operate.retry_checks import read_retry_checks
from tenantcron.scheduler.steps.definitions import (
    DefinitionResult,
    Definitions,
    Readable,
    UnreadableError,
)
from tenantcron.scheduler.steps.due import DueOccurrences, due
from tenantcron.scheduler.steps.fire import RANKS, new_execution
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.schedules.settings import Overlap, ScheduleSettings
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import (
    audit_records,
    execution_history,
    executions,
    history_months,
    limits,
    schedule_cursors,
    tenants,
)
from tenantcron.store.rows.audit_records import CLUSTER, EXECUTION, LIMITS, PAUSE
from tenantcron.store.rows.execution_history import WAITING, ExecutionRow
from tenantcron.store.rows.executions import Manual
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.store.steps import claiming, firing
from tenantcron.store.steps.firing import DueCursor, Move, NewExecution


@dataclass(frozen=True, slots=True)
class Paused:
    """A new pause, with the number of pending executions that it ended and that it kept."""

    cursor: CursorRow
    ended: int
    pending: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """A lifted pause, and the number of occurrences that were recorded as skipped."""

    cursor: CursorRow
    skipped_occurrences: int


@dataclass(frozen=True, slots=True)
class Triggered:
    """An execution that was triggered manually."""

    id: UUID
    scheduled_for: datetime
    cursor: CursorRow


@dataclass(frozen=True, slots=True)
class Operator:
    """Changes schedules and executions on behalf of an actor."""

    database: Database
    settings: Settings
    who: Attribution
    clock: Clock = database_clock
    # The limits for schedules of manifests; see `provider.schedule_limits`.
    bounds: Bounds | None = None

    async def pause(
        self,
        ref: ScheduleRef,
        reason: str,
        until: datetime | None,
        *,
        cancel_pending: bool = False,
    ) -> Paused:
        """Stop a schedule from firing; a second pause changes the reason and the end."""
        await self._sync(ref.tenant)
        at = self.clock()
        async with self.acting() as connection:
            await self.refuse_past(connection, until)
            found = await _locked_cursor(connection, ref)
            by = self.who.changed_by
            (paused,) = await schedule_cursors.pause(
                connection, [found.schedule_id], by=by, reason=reason, until=until, at=at
            )
            stopped = [found.schedule_id] if cancel_pending else []
            ended = await executions.skip_waiting(
                connection, stopped, ReasonCode.PAUSED, at, detail=reason
            )
            unfinished = await execution_history.unfinished_of(
                connection, ref.tenant, found.schedule_id
            )
        pending = sum(row.state in WAITING for row in unfinished)
        return Paused(paused, ended.total(), pending)

    async def resume(self, ref: ScheduleRef, reason: str | None) -> Resumed:
        """Lift a pause. Nothing is fired, and past occurrences are never fired again."""
        await self._sync(ref.tenant)
        await self.prepare_history()
        async with self.acting() as connection:
            found = await _locked_cursor(connection, ref)
            if found.paused_at is None:
                raise OperationError(
                    f"`{ref}` is not paused: `tenantcron why {ref}` shows why it does not run"
                )
            skipped_occurrences = await self.record_skipped(connection, [found])
            (resumed,) = await schedule_cursors.resume(connection, [found.schedule_id])
            if reason is not None:
                await self._explain(connection, (PAUSE, str(ref)), reason, ref.tenant)
        return Resumed(resumed, skipped_occurrences)

    async def trigger(self, ref: ScheduleRef, reason: str | None) -> Triggered:
        """Create an execution that starts as soon as the limits and the overlap allow."""
        actor = self._actor()
        await self._sync(ref.tenant)
        await self.prepare_history()
        async with self.acting() as connection:
            refuse_closed(await existing_tenant(connection, ref.tenant))
            found = await _locked_cursor(connection, ref)
            refuse_quarantined(found, ref)
            definition = await _definition(connection, found.definition_id)
            policies = definition.settings
            manual = Manual(
                schedule_id=found.schedule_id,
                overlap=_manual_overlap(policies.overlap).value,
                priority=RANKS[policies.priority],
                attempts_allowed=policies.retry.max_attempts,
                actor=actor,
                requires=definition.required(found.saga_name),
            )
            made = await executions.trigger(connection, manual, self.clock())
            if made is None:  # impossible, because the cursor is locked
                raise await unknown_schedule(connection, ref, ())
            after: JsonObject = {"schedule": str(ref), "reason": reason}
            await self._record(connection, (made[0], ref.tenant), "trigger", after=after)
            await claiming.notify(connection, "trigger")
        return Triggered(*made, found)

    async def retry(self, prefix: str) -> ExecutionRow:
        """Queue an ended execution again."""
        async with self.acting() as connection:
            found = await locked(connection, await find_execution(connection, prefix))
            checks = await read_retry_checks(connection, [found])
            more = checks.attempts_of(found)
            await executions.retry(connection, [found], more_attempts=more, at=self.clock())
            subject = (found.id, found.tenant_id)
            await self._record(connection, subject, "retry", before=recorded_state(found))
            await claiming.notify(connection, "retry")
            return await locked(connection, found)

    async def cancel(
        self,
        prefix: str,
        reason: str | None,
        refuse: Callable[[ExecutionRow], None] = refuse_cancel,
    ) -> ExecutionRow:
        """End a pending execution, or ask a running one to stop.

        `refuse` raises an error if the execution must not be cancelled; its row is locked then.
        """
        why = self.cancel_reason(reason)
        async with self.acting() as connection:
            found = await locked(connection, await find_execution(connection, prefix))
            refuse(found)
            await executions.cancel(connection, [found], reason=why, at=self.clock())
            after: JsonObject = {"reason": why}
            subject = (found.id, found.tenant_id)
            before = recorded_state(found)
            await self._record(connection, subject, "cancel", before=before, after=after)
            await claiming.notify(connection, claiming.CANCEL)
            return await locked(connection, found)

    def cancel_reason(self, reason: str | None) -> str:
        """Return the reason of a cancellation."""
        return reason or f"cancelled by {self.who.changed_by}"

    async def set_limits(self, values: dict[str, int | None], reason: str | None) -> None:
        """Set the cluster's limits, or reset them; they apply from the next claim."""
        async with self.acting() as connection:
            await limits.set_by_operator(connection, values)
            if reason is not None:
                await self._explain(connection, (LIMITS, CLUSTER), reason)
            await claiming.notify(connection, claiming.LIMITS)

    def _actor(self) -> AnyActor:
        if self.who.actor is None:
            raise OperationError("an execution needs an actor, and none is known")
        return self.who.actor

    @asynccontextmanager
    async def acting(self) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction whose changes are attributed to the actor."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            yield connection

    async def refuse_past(self, connection: AsyncConnection, until: datetime | None) -> None:
        """Refuse a pause that has ended already."""
        if until is not None and until <= await times.moment(connection, self.clock()):
            raise UsageError(f"--until {in_utc(until)} is in the past: use a future time")

    async def sync_all(self) -> None:
        """Sync the cursors of all tenants whose schedules have changed."""
        await refresh(self.database, TenantScheduleProvider(self.bounds), at=self.clock())

    async def _sync(self, tenant: TenantId) -> None:
        """Sync the cursors of a tenant; wait for a scheduler that is syncing it now."""
        await self.sync_all()
        async with self.database.transaction() as connection:
            row = await tenants.find(connection, tenant)
            if row is None or row.schedule_revision == row.synced_revision:
                return
            await tenants.lock(connection, tenant)
        await self.sync_all()

    async def prepare_history(self) -> None:
        """Create the partitions for executions of the present."""
        async with self.database.transaction() as connection:
            now = await times.moment(connection, self.clock())
            await history_months.prepare(connection, now, self.settings.retention)

    async def record_skipped(
        self, connection: AsyncConnection, cursors: Sequence[CursorRow]
    ) -> int:
        """Record the occurrences of pauses as skipped, move the cursors, and return the number."""
        now = await times.moment(connection, self.clock())
        oldest = now - self.settings.retention
        definitions = await Definitions().read(connection, {row.definition_id for row in cursors})
        skipped = [
            found
            for cursor in cursors
            if (found := _skipped(cursor, definitions[cursor.definition_id], now, oldest))
        ]
        if not skipped:
            return 0
        await firing.fire(
            connection,
            [pause.move for pause in skipped],
            [execution for pause in skipped for execution in pause.executions],
            actor_id=scheduler_actor(self.settings.service).id,
            tz_version=tz_version(),
            now=now,
        )
        return sum(pause.occurrences for pause in skipped)

    async def _explain(
        self,
        connection: AsyncConnection,
        entity: tuple[str, str],
        reason: str,
        tenant: TenantId | None = None,
    ) -> None:
        """Record the reason of a change; the correlation id links it to the change's record."""
        after: JsonObject = {"reason": reason}
        await audit_records.record(
            connection, self.who, entity=entity, operation="reason", tenant=tenant, after=after
        )

    async def _record(
        self,
        connection: AsyncConnection,
        of: tuple[UUID, TenantId],
        operation: str,
        *,
        before: JsonObject | None = None,
        after: JsonObject | None = None,
    ) -> None:
        execution, tenant = of
        await audit_records.record(
            connection,
            self.who,
            entity=(EXECUTION, str(execution)),
            operation=operation,
            tenant=tenant,
            before=before,
            after=after,
        )


@dataclass(frozen=True, slots=True)
class _SkippedOccurrences:
    """The occurrences of a pause: how many, their executions, and the move past them."""

    move: Move
    executions: list[NewExecution]
    occurrences: int


def _skipped(
    cursor: CursorRow, definition: DefinitionResult, now: datetime, oldest: datetime
) -> _SkippedOccurrences | None:
    if isinstance(definition, UnreadableError):
        return None  # such a cursor cannot fire either: it gets quarantined
    policies, requires = definition.settings, definition.required(cursor.saga_name)
    try:
        due_now = due_while_paused(cursor, policies, now, oldest)
    except TenantcronError:
        return None  # as above
    if due_now is None or cursor.next_run_at is None:
        return None
    schedule_id = cursor.schedule_id
    return _SkippedOccurrences(
        Move(schedule_id, cursor.next_run_at, due_now.last_run_at, due_now.next_run_at),
        [new_execution(schedule_id, policies, requires, row) for row in due_now.planned],
        due_now.steps,
    )


def due_while_paused(
    cursor: CursorRow, settings: ScheduleSettings, now: datetime, oldest: datetime
) -> DueOccurrences | None:
    """Return the occurrences of a pause that are due and not recorded yet."""
    until, first = cursor.paused_until, cursor.next_run_at
    last = now if until is None else min(now, until - timedelta.resolution)
    if first is None or first > last or not cursor.enabled:
        return None
    paused = DueCursor(
        schedule_id=cursor.schedule_id,
        tenant_id=cursor.tenant_id,
        schedule_name=cursor.schedule_name,
        saga_name=cursor.saga_name,
        cron_expr=cursor.cron_expr,
        timezone=cursor.timezone,
        definition_id=cursor.definition_id,
        next_run_at=first,
        paused_at=cursor.paused_at,
        paused_by=cursor.paused_by,
        paused_reason=cursor.paused_reason,
        paused_until=until,
        last_run_at=cursor.last_run_at,
        counts_after=cursor.counts_after or cursor.effective_from,
    )
    return due(paused, settings, last, oldest)


def _manual_overlap(overlap: Overlap) -> Overlap:
    """Return the overlap of a manual trigger, which neither replaces nor is replaced."""
    return Overlap.QUEUE if overlap is Overlap.CANCEL_RUNNING else overlap


async def _locked_cursor(connection: AsyncConnection, ref: ScheduleRef) -> CursorRow:
    """Lock the cursor of a schedule that must exist."""
    tenant = await existing_tenant(connection, ref.tenant)
    if tenant.status is TenantStatus.DEPROVISIONED:
        refuse_closed(tenant)
    found = await schedule_cursors.find(connection, ref.tenant, ref.schedule)
    row = None if found is None else await schedule_cursors.lock_one(connection, found.schedule_id)
    if row is None:
        raise await unknown_schedule(connection, ref, ())
    return row


async def _definition(connection: AsyncConnection, definition_id: UUID) -> Readable:
    found = (await Definitions().read(connection, [definition_id]))[definition_id]
    if isinstance(found, UnreadableError):
        raise OperationError(str(found))
    return found


def recorded_state(row: ExecutionRow) -> JsonObject:
    """Return what audit records show of an execution before a change."""
    return {
        "schedule": f"{row.tenant_id}/{row.schedule_name}",
        "state": row.state.value,
        "reason": row.reason,
        "attempt": row.attempt,
    }
