"""A system for the steps of a model: users and replicas on one database, with a manual clock.

Steps of a state machine are synchronous functions, so the system has its own event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from sqlalchemy import select
from support.fleet import DEPLOYER, Fleet
from support.model import Name
from support.scheduling import NOON, FakeClock, Row, Scheduling

from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.core.settings import Settings
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.outcome import Status
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.claim import release
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.store.connection.engine import open_database
from tenantcron.store.rows.tenants import TenantLimits
from tenantcron.store.schema.tables import execution, execution_attempt, schedule_cursor
from tenantcron.store.steps import finishing
from tenantcron.store.steps.claiming import Claimed, Lease
from tenantcron.tenants.registry import Registry

T = TypeVar("T")
Step = Callable[[Scheduling], Awaitable[object]]

TENANTS = ("acme", "beta")
# Audit records stay, because they are append-only; nothing here reads them.
_FORGET = """
TRUNCATE tenantcron.execution, tenantcron.execution_attempt, tenantcron.schedule_cursor;
DELETE FROM tenantcron.manifest_version;
DELETE FROM tenant_acme.tenant_schedule;
DELETE FROM tenant_beta.tenant_schedule;
UPDATE tenantcron.tenant
SET status = 'active', max_concurrent = NULL, synced_revision = schedule_revision;
"""


_ALL_OF = {
    "execution": select(execution).order_by(execution.c.scheduled_for, execution.c.id),
    "execution_attempt": select(execution_attempt).order_by(
        execution_attempt.c.execution_id, execution_attempt.c.attempt
    ),
    "schedule_cursor": select(schedule_cursor).order_by(schedule_cursor.c.schedule_id),
}


class DiedError(Exception):
    """A process died in the middle of a transaction."""


async def _refresh(scheduling: Scheduling) -> None:
    await refresh(scheduling.database, TenantScheduleProvider(), at=scheduling.clock())


async def _recover(scheduling: Scheduling) -> int:
    return await recover_lost(scheduling.replica())


STEPS: Mapping[str, Step] = {
    "refresh": _refresh,
    "fire": Scheduling.fire,
    "claim": Scheduling.claim_all,
    "recover": _recover,
}


@dataclass(slots=True)
class World:
    """The system under test; every method is a step of a user or a replica."""

    runner: asyncio.Runner
    scheduling: Scheduling
    fleet: Fleet
    operator: Operator
    registry: Registry
    # Number of schedules created.
    made: int = 0

    @property
    def clock(self) -> FakeClock:
        """The time of all of them."""
        return self.scheduling.clock

    def run(self, step: Coroutine[object, None, T]) -> T:
        """Run a step to completion."""
        return self.runner.run(step)

    # Users.

    def begin(self, overall: int, per_tenant: int) -> None:
        """Reset everything, and start at noon."""
        self.clock.now, self.made = NOON, 0
        self.run(self._forget())
        for tenant in TENANTS:
            self.fleet.write(tenant, {})
        self.limit(overall, per_tenant)

    async def _forget(self) -> None:
        async with self.scheduling.database.transaction() as connection:
            await connection.exec_driver_sql(_FORGET)

    def apply(
        self, tenant: str, schedules: Mapping[str, str], known: Collection[UUID]
    ) -> dict[str, UUID]:
        """Apply a manifest; return the ids of its schedules."""
        self.fleet.write(tenant, schedules)
        return self.run(self._apply(f"tenant_{tenant}.tenant_schedule", known))

    async def _apply(self, table: str, known: Collection[UUID]) -> dict[str, UUID]:
        outcomes = await self.fleet.apply()
        assert all(outcome.status is not Status.FAILED for outcome in outcomes), outcomes
        # An apply uses the time of the database: here it becomes the manual time.
        await self.scheduling.execute(
            f"UPDATE {table} SET effective_from = :now WHERE effective_from = updated_at",  # noqa: S608 -- a name from above
            now=self.clock.now,
        )
        rows = await self.scheduling.query(f"SELECT * FROM {table} ORDER BY schedule_name")  # noqa: S608 -- as above
        return {
            str(row["schedule_name"]): row["id"]
            if row["id"] in known
            else await self._renumbered(table, row["id"])
            for row in rows
        }

    async def _renumbered(self, table: str, random: object) -> UUID:
        """Replace an id, because ids decide the order of equals and runs must be reproducible."""
        self.made += 1
        statement = f"UPDATE {table} SET id = :id WHERE id = :random"  # noqa: S608 -- as above
        await self.scheduling.execute(statement, id=UUID(int=self.made), random=random)
        return UUID(int=self.made)

    def pause(self, name: Name, until: datetime | None) -> None:
        """Pause a schedule."""
        self.run(self.operator.pause(_ref(name), "partner is down", until))

    def resume(self, name: Name) -> None:
        """Lift a pause."""
        self.run(self.operator.resume(_ref(name), None))

    def trigger(self, name: Name) -> None:
        """Trigger a schedule manually."""
        self.run(self.operator.trigger(_ref(name), None))

    def retry(self, execution: UUID) -> None:
        """Retry an execution that has ended."""
        self.run(self.operator.retry(str(execution)))

    def cancel(self, execution: UUID) -> None:
        """Cancel an execution, or ask it to stop."""
        self.run(self.operator.cancel(str(execution), None))

    def suspend(self, tenant: str) -> None:
        """Suspend a tenant."""
        self.run(self.registry.suspend(TenantId(tenant), None))

    def reinstate(self, tenant: str) -> None:
        """Resume a tenant."""
        self.run(self.registry.resume(TenantId(tenant), None))

    def limit(self, overall: int, per_tenant: int) -> None:
        """Set the cluster limits."""
        self.run(self.scheduling.limit(overall, per_tenant))

    def limit_tenant(self, tenant: str, most: int | None) -> None:
        """Set or remove the limit of a tenant."""
        self.run(self.registry.set_limits(TenantId(tenant), TenantLimits(max_concurrent=most)))

    def set_back(self, schedule: UUID, occurrence: datetime) -> None:
        """Set a cursor manually to a past occurrence."""
        self.run(self.scheduling.set_cursor(schedule, next_run_at=occurrence))

    # Replicas.

    def refresh(self) -> None:
        """Sync the cursors."""
        self.run(_refresh(self.scheduling))

    def fire(self) -> None:
        """Fire everything that is due."""
        self.run(self.scheduling.fire())

    def fire_together(self) -> None:
        """Fire everything that is due, with two replicas at once."""
        self.run(self._fire_together())

    async def _fire_together(self) -> None:
        replicas = (self.scheduling.replica(name) for name in ("one", "two"))
        await asyncio.gather(*map(self.scheduling.fire, replicas))

    def fire_again(self) -> None:
        """Fire, and again after a backup of the cursors was restored."""
        cursors = self.rows("schedule_cursor")
        self.fire()
        for row in cursors:
            columns = {name: row[name] for name in ("next_run_at", "last_run_at")}
            self.run(self.scheduling.set_cursor(UUID(str(row["schedule_id"])), **columns))
        self.fire()

    def claim(self, replica: str) -> list[Claimed]:
        """Claim until nothing more starts."""
        started = self.run(self.scheduling.claim_all(self.scheduling.replica(replica)))
        return sorted(started, key=lambda claimed: (claimed.schedule_id, claimed.scheduled_for))

    def finish(self, claimed: Claimed, outcome: AttemptOutcome) -> frozenset[Lease]:
        """End an attempt; return the rejected leases."""
        return self.run(self.scheduling.finish(claimed, outcome)).refused

    def release(self, claimed: Claimed) -> None:
        """Release a claimed execution for others."""
        self.run(release(self.scheduling.replica(), [claimed]))

    def heartbeat(self, claimed: Sequence[Claimed]) -> set[Lease]:
        """Renew leases; return those that are still held."""
        return self.run(self._heartbeat(claimed))

    async def _heartbeat(self, claimed: Sequence[Claimed]) -> set[Lease]:
        async with self.scheduling.database.transaction(by_key=True) as connection:
            lease = self.scheduling.settings.lease
            held = await finishing.heartbeat(connection, claimed, lease=lease, at=self.clock.now)
        return {(execution.id, execution.lease_token) for execution in held}

    def recover(self) -> int:
        """End the attempts of replicas without a heartbeat; return how many."""
        return self.run(_recover(self.scheduling))

    def die_amid(self, step: str) -> None:
        """Run a step and die before its commit."""
        self.run(self._die_amid(STEPS[step]))

    async def _die_amid(self, step: Step) -> None:
        database = self.scheduling.database
        with suppress(DiedError):
            async with database.transaction() as connection:
                await step(replace(self.scheduling, database=database.joining(connection)))
                raise DiedError

    # Observation.

    def rows(self, table: str = "execution") -> list[Row]:
        """Return the rows of a control table, ordered by time if possible."""
        (found,) = self.run(self._rows(table))
        return found

    def everything(self) -> list[list[Row]]:
        """Return everything that a step of a replica may change: executions, attempts, cursors."""
        return self.run(self._rows("execution", "execution_attempt", "schedule_cursor"))

    async def _rows(self, *tables: str) -> list[list[Row]]:
        async with self.scheduling.database.transaction() as connection:
            found = [await connection.execute(_ALL_OF[table]) for table in tables]
            return [[row._asdict() for row in rows] for rows in found]


def _ref(name: Name) -> ScheduleRef:
    tenant, schedule = name
    return ScheduleRef(TenantId(tenant), schedule)


@contextmanager
def opened_world(url: str, folder: Path) -> Iterator[World]:
    """A system with its tenants and nothing else."""
    settings = Settings(database_url=url, folder=folder)
    with asyncio.Runner() as runner:
        opening = open_database(settings)
        scheduling = Scheduling(runner.run(opening.__aenter__()), settings)
        try:
            yield runner.run(_made(runner, scheduling))
        finally:
            runner.run(opening.__aexit__(None, None, None))


async def _made(runner: asyncio.Runner, scheduling: Scheduling) -> World:
    database = scheduling.database
    await scheduling.prepare()
    operator = Operator(database, scheduling.settings, DEPLOYER, scheduling.clock)
    registry = Registry(database, DEPLOYER)
    for tenant in TENANTS:
        await registry.create(TenantId(tenant), TenantLimits())
    return World(
        runner, scheduling, Fleet(database, scheduling.settings.folder), operator, registry
    )
