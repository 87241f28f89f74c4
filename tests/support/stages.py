"""A fixture for interleavings: one tenant with one schedule, and the programs that act on it."""

from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection
from support.fleet import DEPLOYER, Fleet
from support.interleaving import Program
from support.scheduling import NOON, Row, Scheduling

from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.plan import DesiredState
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.operate.task_operator import TaskOperator
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.scheduler.steps.finish import finish_batch, recover_lost
from tenantcron.scheduler.steps.fire import fire_batch
from tenantcron.scheduler.steps.fire_tasks import fire_due_tasks
from tenantcron.schedules.task_request import TaskRequest, batch_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.locks import Lock, take_lock
from tenantcron.store.rows.tenants import TenantLimits
from tenantcron.store.steps import finishing, submit
from tenantcron.store.steps.claiming import Claim, Claimed, Lease
from tenantcron.store.steps.submit import Submitted
from tenantcron.tenants.registry import Registry

ACME = TenantId("acme")
HOURLY = "cron: '0 * * * *'"
# It declares no capabilities.
_REGISTER_AS_BEFORE = """
INSERT INTO tenantcron.worker (id, service, started_at, seen_at)
VALUES (%(id)s, 'scheduler', statement_timestamp(), statement_timestamp())
"""
_LOCK_AS_BEFORE = "SELECT pg_catalog.pg_advisory_xact_lock(1952672002, -2147483648)"
# Whether the session is one of the release before.
locks_as_before = ContextVar("locks_as_before", default=False)


async def lock_as_the_release_of_the_session(connection: AsyncConnection, what: Lock) -> None:
    """Take a lock; in the place of `take_lock`."""
    if locks_as_before.get():
        await connection.exec_driver_sql(_LOCK_AS_BEFORE)
    else:
        await take_lock(connection, what)


@dataclass(frozen=True, slots=True)
class Stage:
    """A database at noon; each method returns the program of a session."""

    scheduling: Scheduling

    # Set-up, outside any session.

    async def prepare(self) -> None:
        """Create history, and a tenant with its schema."""
        await self.scheduling.prepare()
        await Registry(self.scheduling.database, DEPLOYER).create(ACME, TenantLimits())

    async def wanted(self, schedules: dict[str, str], folder: Path) -> DesiredState:
        """Check a manifest of the tenant."""
        fleet = Fleet(self.scheduling.database, folder)
        folder.mkdir(exist_ok=True)
        fleet.write(ACME, schedules)
        (prepared,) = await fleet.prepared()
        assert prepared.desired is not None, prepared.diagnostics
        return prepared.desired

    async def declare(self, schedules: dict[str, str], folder: Path) -> UUID:
        """Apply a manifest as of three hours ago, track it, and return its first schedule."""
        await self.apply(await self.wanted(schedules, folder))(self.scheduling.database)
        await self.scheduling.execute(
            "UPDATE tenant_acme.tenant_schedule SET effective_from = :since",
            since=NOON - timedelta(hours=3),
        )
        await self.refresh()(self.scheduling.database)
        await self.scheduling.execute(
            "UPDATE tenantcron.schedule_cursor SET next_run_at = :noon", noon=NOON
        )
        (cursor, *_) = await self.scheduling.rows("schedule_cursor", "schedule_name")
        return UUID(str(cursor["schedule_id"]))

    async def limit(self, number: int) -> None:
        """Set the cluster limit."""
        operator = self._operator(self.scheduling.database)
        await operator.set_limits({"operator": number}, None)

    async def start(self, worker: str = "first") -> Claimed:
        """Claim the only pending execution."""
        (claimed,) = (await claim_batch(self.scheduling.replica(worker))).started
        return claimed

    # Replicas.

    def fire(self) -> Program:
        """Fire everything that is due."""
        return lambda database: fire_batch(self._on(database).replica("fires"))

    def fire_tasks(self) -> Program:
        """Fire all tasks that are due."""
        return lambda database: fire_due_tasks(self._on(database).replica("fires"))

    def replica(self, database: Database, name: str) -> Replica:
        """Return a replica on another connection."""
        return self._on(database).replica(name)

    def claim(self, worker: str = "claims", *sagas: str) -> Program:
        """Claim what may start, of these sagas or of any."""
        return lambda database: claim_batch(self._on(database).replica(worker, *sagas))

    def claim_while_scarce(self, worker: str = "claims") -> Program:
        """Claim as a replica that knows that slots are scarce: with half of the statements."""

        def run(database: Database) -> Awaitable[Claim]:
            replica = self._on(database).replica(worker)
            replica.demand.is_scarce = True
            return claim_batch(replica)

        return run

    def register_and_claim_as_before(self, worker: str) -> Program:
        """Claim as a replica of the release before, which has just been started."""

        async def run(database: Database) -> Claim:
            async with database.transaction() as connection:
                await connection.exec_driver_sql(_REGISTER_AS_BEFORE, {"id": worker})
            locks_as_before.set(True)
            return await claim_batch(self._on(database).replica(worker))

        return run

    def finish(self, claimed: Claimed, outcome: AttemptOutcome) -> Program:
        """Record how an attempt ended."""
        ended = [Attempt(claimed, outcome, None)]
        return lambda database: finish_batch(self._on(database).replica("finishes"), ended)

    def recover(self, worker: str = "recovers") -> Program:
        """End the attempts whose lease has expired."""
        return lambda database: recover_lost(self._on(database).replica(worker))

    def heartbeat(self, claimed: Sequence[Claimed]) -> Program:
        """Renew leases; the program returns those that are still held."""

        async def renew(database: Database) -> set[Lease]:
            lease, at = self.scheduling.settings.lease, self.scheduling.clock.now
            async with database.transaction(by_key=True) as connection:
                held = await finishing.heartbeat(connection, claimed, lease=lease, at=at)
            return {(kept.id, kept.lease_token) for kept in held}

        return renew

    def refresh(self) -> Program:
        """Sync the cursors with the schedules."""
        at = self.scheduling.clock.now
        return lambda database: refresh(database, TenantScheduleProvider(), at=at)

    # Users.

    def apply(self, wanted: DesiredState) -> Program:
        """Apply a manifest that was checked before."""
        return lambda database: Fleet(database, Path()).applier().apply(wanted)

    def pause(self, name: str) -> Program:
        """Pause a schedule and end its pending executions."""
        ref = ScheduleRef(ACME, name)
        return lambda database: self._operator(database).pause(
            ref, "partner is down", None, cancel_pending=True
        )

    def cancel(self, execution: UUID) -> Program:
        """Cancel an execution."""
        return lambda database: self._operator(database).cancel(str(execution), "not needed")

    def retry(self, execution: UUID) -> Program:
        """Retry an execution that has ended."""
        return lambda database: self._operator(database).retry(str(execution))

    def submit(self, request: TaskRequest) -> Program:
        """Submit a task, in a transaction of two statements."""

        async def run(database: Database) -> Submitted:
            async with database.transaction() as connection:
                await connection.exec_driver_sql("SELECT 1")
                at = self.scheduling.clock.now
                (submitted,) = await submit.submit(connection, ACME, batch_json([request]), at)
            return submitted

        return run

    def cancel_task(self, task: UUID) -> Program:
        """Cancel a task."""
        return lambda database: self._task_operator(database).cancel(task, "not needed")

    def reschedule_task(self, task: UUID, execute_at: datetime) -> Program:
        """Change the time of a task."""
        return lambda database: self._task_operator(database).reschedule(task, execute_at)

    def suspend(self) -> Program:
        """Suspend the tenant."""
        return lambda database: Registry(database, DEPLOYER).suspend(ACME, "unpaid")

    # Results.

    async def executions(self) -> list[Row]:
        """Return all executions in the order of their occurrences."""
        return await self.scheduling.rows()

    def _on(self, database: Database) -> Scheduling:
        return replace(self.scheduling, database=database)

    def _operator(self, database: Database) -> Operator:
        return Operator(database, self.scheduling.settings, DEPLOYER, self.scheduling.clock)

    def _task_operator(self, database: Database) -> TaskOperator:
        return TaskOperator(database, self.scheduling.settings, DEPLOYER, self.scheduling.clock)
