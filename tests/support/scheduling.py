"""A scheduler for tests: steps on a real database, at the time that the test sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text, update
from sqlalchemy.dialects.postgresql import insert
from support.reasons import in_words

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.core.values import JsonObject
from tenantcron.cron.zones import tz_version
from tenantcron.provider.static_settings import DEFAULTS as DEFINITION
from tenantcron.scheduler.replica.housekeeping import prepare_history
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import Sweep, claim_batch
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.scheduler.steps.fire import fire_batch
from tenantcron.scheduler.steps.fire_tasks import fire_due_tasks
from tenantcron.schedules.task_request import TaskRequest, batch_json
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_history, limits, schedule_definitions
from tenantcron.store.rows.execution_history import AttemptRow
from tenantcron.store.schema.tables import execution, schedule_cursor
from tenantcron.store.schema.tables import tenant as tenant_table
from tenantcron.store.steps import submit
from tenantcron.store.steps.claiming import Claim, Claimed
from tenantcron.store.steps.finishing import Finished
from tenantcron.store.steps.submit import Submitted
from tenantcron.targets.capabilities import ANYTHING, Capabilities

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
Row = Mapping[str, Any]


@dataclass(slots=True)
class FakeClock:
    """A clock that only the test moves."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **duration: float) -> datetime:
        """Advance the clock."""
        self.now += timedelta(**duration)
        return self.now


@dataclass(frozen=True, slots=True)
class Scheduling:
    """A database with tenants and cursors, and replicas that take steps on it."""

    database: Database
    settings: Settings
    clock: FakeClock = field(default_factory=FakeClock)

    def replica(self, name: str = "one", *sagas: str) -> Replica:
        """Return a replica that shares the database and the clock; it runs these sagas, or any."""
        random = Random(1)  # noqa: S311 -- the same for every test
        named = Capabilities(tuple(f"saga:{saga}" for saga in sagas))
        return Replica(
            self.database,
            self.settings,
            worker_id=name,
            capabilities=named if sagas else ANYTHING,
            clock=self.clock,
            random=random,
        )

    async def prepare(self) -> None:
        """Create history partitions for the current time."""
        await prepare_history(self.replica())

    async def tenant(self, name: str = "acme", **columns: object) -> TenantId:
        """Add a tenant, without a schema."""
        values = {"id": name, "schema_name": f"tenant_{name}", **columns}
        async with self.database.transaction() as connection:
            statement = insert(tenant_table).values(
                created_at=self.clock.now, updated_at=self.clock.now, **values
            )
            await connection.execute(statement.on_conflict_do_nothing())
        return TenantId(name)

    async def schedule(
        self,
        name: str = "nightly",
        cron: str = "0 * * * *",
        *,
        tenant: str = "acme",
        timezone: str = "UTC",
        columns: Mapping[str, object] | None = None,
        **definition: Any,
    ) -> UUID:
        """Add a cursor that counts from now; other arguments are the definition."""
        await self.tenant(tenant)
        document = {**DEFINITION, **definition}
        schedule_id, definition_id = uuid4(), schedule_definitions.definition_id(document)
        values = {
            "schedule_id": schedule_id,
            "tenant_id": tenant,
            "schedule_name": name,
            "saga_name": name,
            "provider": "tenant",
            "cron_expr": cron,
            "timezone": timezone,
            "tz_version": tz_version(),
            "enabled": True,
            "definition_id": definition_id,
            "effective_from": self.clock.now,
            "next_run_at": zoned_timetable(cron, timezone).next_after(self.clock.now),
            **(columns or {}),
        }
        async with self.database.transaction() as connection:
            await schedule_definitions.add(connection, {definition_id: document})
            await connection.execute(insert(schedule_cursor).values(**values))
        return schedule_id

    async def schedules(self, count: int, cron: str = "0 * * * *", **definition: Any) -> None:
        """Add many cursors of one tenant at once, named s1 to s<count>."""
        first = await self.schedule("s1", cron, **definition)
        columns = "enabled, tenant_id, saga_name, provider, cron_expr, timezone, tz_version"
        columns += ", definition_id, effective_from, next_run_at"
        await self.execute(
            f"INSERT INTO tenantcron.schedule_cursor (schedule_id, schedule_name, {columns})"  # noqa: S608 -- the names above
            f" SELECT gen_random_uuid(), 's' || n, {columns} FROM tenantcron.schedule_cursor,"
            " generate_series(2, :count) AS n WHERE schedule_id = :first",
            count=count,
            first=first,
        )

    async def waiting(self, count: int = 1, *, tenant: str = "acme", **columns: object) -> None:
        """Add pending executions, each with its own schedule unless the columns set one."""
        await self.tenant(tenant)
        document: JsonObject = dict(DEFINITION)
        definition_id = schedule_definitions.definition_id(document)
        row = {
            "saga_name": "work",
            "definition_id": definition_id,
            "scheduled_for": self.clock.now,
            "state": "PENDING",
            "overlap": "skip",
            "priority": 2,
            "not_before": self.clock.now,
            "start_deadline": None,
            "attempts_allowed": 3,
            "actor_id": "system:scheduler:scheduler",
            "actor_type": "scheduler",
            "actor_source": "cron-scheduler",
            "created_at": self.clock.now,
            "schedule_name": "work",
            **columns,
        }
        row = {"requires": f"saga:{row['saga_name']}", **row}
        values = [
            {"id": uuid4(), "schedule_id": uuid4(), "tenant_id": tenant, **row}
            for _ in range(count)
        ]
        cursors = [self._idle_cursor(pending) for pending in values]
        async with self.database.transaction() as connection:
            await schedule_definitions.add(connection, {definition_id: document})
            await connection.execute(insert(schedule_cursor).on_conflict_do_nothing(), cursors)
            await connection.execute(execution.insert(), values)

    def _idle_cursor(self, of: Mapping[str, object]) -> dict[str, object]:
        """Return a cursor for an execution's schedule, which never fires."""
        return {
            "schedule_id": of["schedule_id"],
            "tenant_id": of["tenant_id"],
            "schedule_name": str(of["schedule_id"]),
            "saga_name": of["saga_name"],
            "provider": "tenant",
            "cron_expr": "0 0 1 1 *",
            "timezone": "UTC",
            "tz_version": tz_version(),
            "enabled": True,
            "definition_id": of["definition_id"],
            "effective_from": self.clock.now,
            "next_run_at": None,
        }

    async def limit(self, overall: int, per_tenant: int = 100) -> None:
        """Set the cluster limits."""
        async with self.database.transaction() as connection:
            values: dict[str, int | None] = {"operator": overall, "operator_per_tenant": per_tenant}
            await limits.set_by_operator(connection, values)

    async def fire(self, replica: Replica | None = None) -> int:
        """Fire everything that is due; return the number of executions."""
        fired = 0
        while True:
            batch = await fire_batch(replica or self.replica())
            tasks = await fire_due_tasks(replica or self.replica())
            fired += batch.executions + tasks.executions
            if not batch.more and not tasks.more:
                return fired

    async def submit(
        self, *requests: TaskRequest, tenant: str = "acme", **request: Any
    ) -> list[Submitted]:
        """Submit tasks of a tenant that exists: these, or one with the given fields."""
        given = requests or (TaskRequest(**{"saga": "work", **request}),)
        async with self.database.transaction() as connection:
            tasks = batch_json(given)
            return await submit.submit(connection, TenantId(tenant), tasks, self.clock.now)

    async def task(self, tenant: str = "acme", **request: Any) -> UUID:
        """Submit a task, and return its id."""
        await self.tenant(tenant)
        (submitted,) = await self.submit(tenant=tenant, **request)
        return submitted.id

    async def claim(self, replica: Replica | None = None) -> Claim:
        """Claim a batch."""
        return await claim_batch(replica or self.replica())

    async def claim_all(self, replica: Replica | None = None) -> list[Claimed]:
        """Claim until nothing more starts or ends, as the loop does."""
        replica, sweep, started = replica or self.replica(), Sweep(), list[Claimed]()
        for _ in range(1000):
            claim = await claim_batch(replica, after=sweep.after)
            started += claim.started
            if not sweep.advance(claim):
                return started
        raise AssertionError("the claims do not end")

    async def work(self, replica: Replica, executor: Executor) -> list[Row]:
        """Fire, claim, run and finish once, as the loops do; return the executions."""
        await self.fire(replica)
        started = await self.claim_all(replica)
        async with self.database.transaction() as connection:
            ids = {claimed.definition_id for claimed in started}
            definitions = await replica.definitions.read(connection, ids)
        attempts = []
        for claimed in started:
            definition = definitions[claimed.definition_id]
            assert not isinstance(definition, Exception)
            attempts.append(await executor.run(claimed, definition.settings, definition.target))
        await finish_batch(replica, attempts)
        return await self.rows()

    async def finish(
        self,
        claimed: Claimed,
        outcome: AttemptOutcome = AttemptOutcome.SUCCEEDED,
        error: str | None = None,
        **attempt: object,
    ) -> Finished:
        """End an attempt."""
        ended = Attempt(claimed, outcome, error, **attempt)  # type: ignore[arg-type] # as given
        return await finish_batch(self.replica(), [ended])

    async def rows(self, table: str = "execution", order: str = "scheduled_for, id") -> list[Row]:
        """Return the rows of a control table."""
        return await self.query(f"SELECT * FROM tenantcron.{table} ORDER BY {order}")  # noqa: S608 -- text of a test

    async def query(self, statement: str, **values: object) -> list[Row]:
        """Return the rows of a statement."""
        async with self.database.transaction() as connection:
            found = await connection.execute(text(statement), values)
            return [in_words(row._asdict()) for row in found]

    async def attempts(self, execution: Claimed | UUID) -> list[AttemptRow]:
        """Return the attempts of an execution, as shown to users."""
        execution_id = execution.id if isinstance(execution, Claimed) else execution
        async with self.database.transaction() as connection:
            (found,) = await execution_history.with_ids_between(
                connection, execution_id, execution_id, 1
            )
            return await execution_history.attempts_of(connection, found)

    async def cursor(self, schedule_id: UUID) -> Row:
        """Return a cursor."""
        statement = "SELECT * FROM tenantcron.schedule_cursor WHERE schedule_id = :id"
        return (await self.query(statement, id=schedule_id))[0]

    async def set_cursor(self, schedule_id: UUID, **columns: object) -> None:
        """Change columns of a cursor manually."""
        async with self.database.transaction() as connection:
            this = schedule_cursor.c.schedule_id == schedule_id
            await connection.execute(update(schedule_cursor).where(this).values(**columns))

    async def count(self, **columns: object) -> int:
        """Return the number of executions with these values."""
        return sum(
            all(row[name] == value for name, value in columns.items()) for row in await self.rows()
        )

    async def states(self) -> list[tuple[object, object]]:
        """Return state and reason of all executions in order."""
        return [(row["state"], row["reason"]) for row in await self.rows()]

    async def execute(self, statement: str, **values: object) -> None:
        """Run a statement directly."""
        async with self.database.transaction() as connection:
            await connection.execute(text(statement), values)
