"""The cost of an idle replica for the database: statements and connections.

Each loop runs its real steps on a real server. The tests count the statements of each step, and
derive the rate from the time that the loop would sleep.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from support.replicas import Works, at_work
from support.scheduling import Scheduling
from support.sessions import until_not_found
from support.webhooks import hooked

from tenantcron.core.wake_signal import WakeSignal
from tenantcron.events.outbox import Outbox
from tenantcron.provider.static import static_provider
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.replica import replica_loops
from tenantcron.scheduler.replica.polling_loops import Step
from tenantcron.scheduler.replica.replica_loops import ReplicaRun
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps import lease_thread
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.handler_connections import HandlerConnections
from tenantcron.scheduler.steps.leases import renew
from tenantcron.store.connection import listening
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.handler_transactions import HandlerTransactions
from tenantcron.targets.capabilities import Capabilities

MOST_STATEMENTS = 120
MOST_CONNECTIONS = 4
_CONNECTIONS = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@dataclass
class Meter:
    """Counts statements like the server, including each SET and COMMIT of a transaction."""

    statements: int = 0

    def sent(self, *arguments: object) -> None:
        self.statements += str(arguments[2]).rstrip("; ").count(";") + 1

    def ended(self, connection: object) -> None:
        # After a statement without a transaction the driver sends no COMMIT.
        driver = connection.connection.driver_connection  # type: ignore[attr-defined] # SQLAlchemy's
        is_open = driver.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE
        self.statements += int(is_open)


@contextmanager
def metered(database: Database) -> Iterator[Meter]:
    meter, engine = Meter(), database.engine.sync_engine
    heard: dict[str, Callable[..., None]] = {
        "before_cursor_execute": meter.sent,
        "commit": meter.ended,
        "rollback": meter.ended,
    }
    for name, listener in heard.items():
        event.listen(engine, name, listener)
    yield meter
    for name, listener in heard.items():
        event.remove(engine, name, listener)


@dataclass
class Steps:
    """Runs each step of a replica twice, one loop after the other; the second run is idle."""

    meter: Meter
    a_minute: dict[str, float] = field(default_factory=dict)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take(self, name: str, step: Step, signal: WakeSignal, *_: object) -> None:
        async with self.turn:
            costs = [await self._cost(step)]
            signal.was_set = False
            costs.append(await self._cost(step))
        # The first refresh is periodic. The second one would follow a notification.
        self.a_minute[name] = costs[0 if name == "refresh" else 1]

    async def _cost(self, step: Step) -> float:
        before = self.meter.statements
        seconds = await step()
        return (self.meter.statements - before) * 60 / seconds


@asynccontextmanager
async def parts(scheduling: Scheduling) -> AsyncIterator[tuple[Replica, Executor]]:
    transactions = HandlerTransactions(scheduling.database.target)
    yield (
        Replica(
            scheduling.database, scheduling.settings, capabilities=Capabilities(("saga:quick",))
        ),
        Executor(Works().handlers(), HandlerConnections(transactions)),
    )
    await transactions.close()


async def cost_a_minute(
    scheduling: Scheduling, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> dict[str, float]:
    """Return the statements that each loop of an idle replica sends in a minute."""
    async with parts(scheduling) as (replica, executor):
        with metered(scheduling.database) as meter:
            steps = Steps(meter)
            monkeypatch.setattr(replica_loops, "run_loop", steps.take)
            providers = (TenantScheduleProvider(), static_provider(()))
            run = ReplicaRun(replica, executor, providers, outbox)
            run.stop()
            await run.run()
            before = meter.statements
            await renew(replica, executor)
            beat = meter.statements - before
    every = scheduling.settings.lease.total_seconds() * lease_thread._EVERY
    silence = listening._SILENCE
    return steps.a_minute | {"heartbeat": beat * 60 / every, "listening": 60 / silence}


@pytest.mark.parametrize("webhook", [False, True])
async def test_an_idle_replica_sends_few_statements(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch, *, webhook: bool
) -> None:
    await scheduling.schedule("yearly", "0 0 1 1 *")
    async with hooked(scheduling) as hooks:
        if webhook:
            await hooks.add()
        costs = await cost_a_minute(scheduling, hooks.outbox(), monkeypatch)

    assert costs.keys() >= {"fire", "claim", "recover", "refresh", "outbox", "heartbeat"}
    assert min(costs[name] for name in ("fire", "claim", "recover", "outbox", "heartbeat")) > 0
    assert sum(costs.values()) <= MOST_STATEMENTS, costs


async def test_a_replica_sends_few_statements_while_only_others_can_run_pending_executions(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = datetime.now(UTC) - timedelta(hours=1)
    times: dict[str, Any] = {"not_before": due, "created_at": due, "scheduled_for": due}
    await scheduling.waiting(100, saga_name="forecast", **times)
    async with hooked(scheduling) as hooks:
        costs = await cost_a_minute(scheduling, hooks.outbox(), monkeypatch)

    # A glance every ten seconds, and every twenty a check for executions without a runner.
    assert costs["claim"] <= 12, costs
    assert costs["runners"] <= 90, costs


async def test_an_idle_replica_keeps_few_connections(
    real: Scheduling, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.store.connection.idle_connections.LONGEST_IDLE", 0.2)
    monkeypatch.setattr("tenantcron.store.connection.idle_connections._LOOK_EVERY", 0.0)
    async with AsyncExitStack() as stack:
        for _ in range(10):
            await stack.enter_async_context(real.database.transaction())

    async with at_work(real, Works()):
        await until_not_found(database_url, f"{_CONNECTIONS} OFFSET {MOST_CONNECTIONS}")
