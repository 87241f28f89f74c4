"""Replicas in the tests' own process: real loops on a real clock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from support.patience import PATIENCE
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.events.outbox import Outbox
from tenantcron.events.publisher import BusPublisher
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.replica.replica_loops import ReplicaRun
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.handler_connections import HandlerConnections
from tenantcron.store.connection.handler_transactions import HandlerTransactions
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler, HandlerFunction, SourceLocation
from tenantcron.targets.python.registry import Handlers


@dataclass
class Works:
    """Records executions, and blocks handlers until released."""

    calls: list[Execution] = field(default_factory=list)
    called: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, execution: Execution) -> None:
        self.calls.append(execution)
        self.called.set()

    async def quick(self, execution: Execution) -> None:
        self.note(execution)

    async def slow(self, execution: Execution) -> None:
        self.note(execution)
        await self.go.wait()

    async def flaky(self, execution: Execution) -> None:
        self.note(execution)
        if execution.attempt == 1:
            raise RuntimeError("not yet")

    def handlers(self) -> Handlers:
        def handler(saga: str, function: HandlerFunction) -> Handler:
            return Handler(saga, function, is_async=True, place=SourceLocation("m", saga, "x", 1))

        sagas = {"quick": self.quick, "slow": self.slow, "flaky": self.flaky}
        return Handlers.of([handler(saga, function) for saga, function in sagas.items()])


async def due(real: Scheduling, saga: str, **definition: str) -> UUID:
    """Add a schedule whose cursor is due."""
    schedule_id = await real.schedule(saga, "0 0 1 1 *", **definition)  # type: ignore[arg-type] # the rest is the definition
    await make_due(real, schedule_id)
    return schedule_id


async def make_due(real: Scheduling, schedule_id: UUID) -> None:
    await real.execute(
        "UPDATE tenantcron.schedule_cursor SET next_run_at = statement_timestamp()"
        " WHERE schedule_id = :id",
        id=schedule_id,
    )


@asynccontextmanager
async def made(
    real: Scheduling,
    works: Works,
    settings: Settings | None = None,
    outbox: Outbox | None = None,
    publisher: BusPublisher | None = None,
) -> AsyncIterator[ReplicaRun]:
    transactions = HandlerTransactions(real.database.target)
    try:
        executor = Executor(works.handlers(), HandlerConnections(transactions))
        replica = Replica(real.database, settings or real.settings)
        yield ReplicaRun(
            replica, executor, (TenantScheduleProvider(),), outbox, publisher=publisher
        )
    finally:
        await transactions.close()


@asynccontextmanager
async def at_work(
    real: Scheduling,
    works: Works,
    settings: Settings | None = None,
    outbox: Outbox | None = None,
    publisher: BusPublisher | None = None,
) -> AsyncIterator[ReplicaRun]:
    """Run until the end of the block, then stop and drain."""
    async with made(real, works, settings, outbox, publisher) as run:
        running = asyncio.create_task(run.run())
        try:
            yield run
        finally:
            run.stop()
            async with asyncio.timeout(PATIENCE):
                await running


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.02)


async def until_idle(run: ReplicaRun) -> None:
    """Wait until the replica would start at once what becomes due."""

    async def is_idle() -> bool:
        return run._claiming._may_start_at_once

    await until(is_idle)


async def until_state(real: Scheduling, state: str, number: int = 1) -> None:
    async def there() -> bool:
        return await real.count(state=state) == number

    await until(there)
