"""Transactions of handlers: in the tenant's schema, attributed, and never committed too late."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import UUID

import pytest
from sqlalchemy import text
from support.attempts import SETTINGS, HandClock, claimed
from support.tenants import add_current

from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.names import TenantId
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome, Stop
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.handler_connections import HandlerConnections
from tenantcron.scheduler.steps.handler_logins import HandlerLogins
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.handler_pool import logged_in_as
from tenantcron.store.connection.handler_transactions import HandlerTransactions
from tenantcron.store.connection.scripts import for_schema, run_script
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler, HandlerFunction, SourceLocation
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.signals import Cancelled

TENANTS = ("acme", "night-owl")
# Written like a user's trigger, which knows only the session settings.
METERS = """
CREATE TABLE {schema}.meter (id integer PRIMARY KEY, owner text);
CREATE TABLE {schema}.history (meter integer, actor text, correlation_id text);
CREATE FUNCTION {schema}.remember() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.history VALUES (new.id, current_setting('tenantcron.actor'),
        current_setting('tenantcron.correlation_id'));
    RETURN new;
END $$;
CREATE TRIGGER remembered AFTER INSERT ON {schema}.meter
    FOR EACH ROW EXECUTE FUNCTION {schema}.remember();
"""
INSERT = text("INSERT INTO meter VALUES (1, :owner)")


@pytest.fixture
async def tenants(database: Database) -> Database:
    """A database with two tenants, which have tables of the same names."""
    async with database.transaction() as connection:
        for tenant in TENANTS:
            schema = await add_current(connection, tenant)
            await connection.run_sync(run_script, for_schema(METERS, schema))
    return database


@pytest.fixture
async def transactions(tenants: Database) -> AsyncIterator[HandlerTransactions]:
    """The transactions of handlers on that database."""
    opened = HandlerTransactions(tenants.target, HandlerLogins(tenants), 2)
    yield opened
    await opened.close()


class Runs:
    """Runs a handler on the database, with a clock that the test moves."""

    def __init__(self, transactions: HandlerTransactions, function: HandlerFunction) -> None:
        place = SourceLocation("m", "f", "x", 1)
        is_async = asyncio.iscoroutinefunction(function)
        handlers = Handlers.of([Handler("reconcile", function, is_async, place)])
        self.clock = HandClock()
        connections = HandlerConnections(transactions)
        self.executor = Executor(handlers, connections, call_later=self.clock)

    async def run(self, of: Claimed) -> Attempt:
        """Run the handler until its attempt ends."""
        return await self.executor.run(of, SETTINGS)


async def in_the_loop(execution: Execution) -> None:
    async with execution.connection() as connection:
        await connection.execute(INSERT, {"owner": execution.tenant_id})


def in_a_thread(execution: Execution) -> None:
    with execution.connection() as connection:
        connection.execute(INSERT, {"owner": execution.tenant_id})


async def failing_in_the_loop(execution: Execution) -> None:
    async with execution.connection() as connection:
        await connection.execute(INSERT, {"owner": "unknown"})
        raise ValueError("changed my mind")


def failing_in_a_thread(execution: Execution) -> None:
    with execution.connection() as connection:
        connection.execute(INSERT, {"owner": "unknown"})
        raise ValueError("changed my mind")


BOTH_WAYS = pytest.mark.parametrize("handler", [in_the_loop, in_a_thread])


async def rows(database: Database, tenant: str, table: str) -> list[tuple[object, ...]]:
    async with database.transaction() as connection:
        found = await connection.exec_driver_sql(f'SELECT * FROM "tenant_{tenant}".{table}')  # noqa: S608 -- constants
        return [tuple(row) for row in found]


@BOTH_WAYS
async def test_a_handler_writes_to_the_schema_of_its_tenant_and_no_other(
    tenants: Database, transactions: HandlerTransactions, handler: HandlerFunction
) -> None:
    run = Runs(transactions, handler)

    attempts = [await run.run(claimed(tenant=tenant)) for tenant in TENANTS]

    assert [attempt.error for attempt in attempts] == [None, None]
    for tenant in TENANTS:
        assert await rows(tenants, tenant, "meter") == [(1, tenant)]


@BOTH_WAYS
async def test_a_trigger_of_the_tenant_sees_the_actor_and_the_execution(
    tenants: Database, transactions: HandlerTransactions, handler: HandlerFunction
) -> None:
    # Characters that need quoting in SQL, or that a driver treats as parameters.
    actor = Actor("o'hara 100% :x \\ {}", ActorType.WORKER, "test")
    execution = claimed(actor=actor, execution_id=UUID(int=7))

    attempt = await Runs(transactions, handler).run(execution)

    assert attempt.error is None
    assert await rows(tenants, "acme", "history") == [(1, actor.id, str(UUID(int=7)))]


@pytest.mark.parametrize("handler", [failing_in_the_loop, failing_in_a_thread])
async def test_an_exception_rolls_back(
    tenants: Database, transactions: HandlerTransactions, handler: HandlerFunction
) -> None:
    attempt = await Runs(transactions, handler).run(claimed())

    assert "changed my mind" in str(attempt.error)
    assert await rows(tenants, "acme", "meter") == []


@BOTH_WAYS
async def test_a_database_error_reaches_the_handler(
    transactions: HandlerTransactions, handler: HandlerFunction
) -> None:
    run = Runs(transactions, handler)
    await run.run(claimed())

    attempt = await run.run(claimed(attempt=2))

    assert attempt.outcome is AttemptOutcome.FAILED
    assert "IntegrityError" in str(attempt.error)


async def test_a_connection_keeps_no_state_of_a_transaction(
    transactions: HandlerTransactions,
) -> None:
    found: list[tuple[object, ...]] = []
    state = text(
        "SELECT pg_backend_pid(), current_setting('search_path'),"
        " current_setting('tenantcron.actor', true), current_setting('transaction_isolation')"
    )

    async def look(execution: Execution) -> None:
        async with execution.connection() as connection:
            found.append(tuple((await connection.execute(state)).one()))

    run = Runs(transactions, look)
    for _ in range(2):
        await run.run(claimed(tenant="night-owl"))

    (first, *settings), (second, *again) = found
    assert first == second
    assert settings == ['"tenant_night-owl"', "system:scheduler:billing", "read committed"]
    assert again == settings
    assert await outside(transactions) == ("", '"$user", public', first)


async def outside(transactions: HandlerTransactions) -> tuple[object, ...]:
    """Return the settings of the connection outside a transaction."""
    state = text(
        "SELECT current_setting('tenantcron.actor', true), current_setting('search_path'),"
        " pg_backend_pid()"
    )
    assert transactions.logins is not None
    with logged_in_as(await transactions.logins.get(TenantId("night-owl"))):
        connection = await transactions._async().connect()
    async with aclosing(connection):
        return tuple((await connection.execute(state)).one())


@BOTH_WAYS
async def test_a_handler_may_have_several_transactions_one_after_the_other(
    tenants: Database, transactions: HandlerTransactions, handler: HandlerFunction
) -> None:
    delete = text("DELETE FROM meter")

    async def twice_in_the_loop(execution: Execution) -> None:
        await in_the_loop(execution)
        async with execution.connection() as connection:
            await connection.execute(delete)
        await in_the_loop(execution)

    def twice_in_a_thread(execution: Execution) -> None:
        in_a_thread(execution)
        with execution.connection() as connection:
            connection.execute(delete)
        in_a_thread(execution)

    twice = twice_in_the_loop if handler is in_the_loop else twice_in_a_thread
    attempt = await Runs(transactions, twice).run(claimed())

    assert attempt.error is None
    assert len(await rows(tenants, "acme", "history")) == 2


async def test_one_connection_is_one_transaction(transactions: HandlerTransactions) -> None:
    async def again(execution: Execution) -> None:
        connection = execution.connection()
        async with connection:
            pass
        async with connection:
            pass

    attempt = await Runs(transactions, again).run(claimed())

    assert "one connection() is one transaction" in str(attempt.error)


async def test_handlers_cannot_use_up_the_connections_of_the_scheduler(
    tenants: Database, transactions: HandlerTransactions
) -> None:
    async def look(execution: Execution) -> None:
        async with execution.connection() as connection, tenants.transaction() as own:
            pids = [
                await transaction.scalar(text("SELECT pg_backend_pid()"))
                for transaction in (connection, own)
            ]
            assert len(set(pids)) == 2
            assert connection.engine is not own.engine

    assert (await Runs(transactions, look).run(claimed())).error is None


class LateThread:
    """A plain handler that commits long after its timeout."""

    def __init__(self) -> None:
        self.was_written, self.may_end = threading.Event(), threading.Event()
        self.thread = threading.main_thread()
        self.raised: list[BaseException] = []

    def run(self, execution: Execution) -> None:
        self.thread = threading.current_thread()
        for _ in range(2):
            try:
                with execution.connection() as connection:
                    connection.execute(INSERT, {"owner": "late"})
                    self.was_written.set()
                    self.may_end.wait()
            except Cancelled as error:
                self.raised.append(error)


async def test_a_timed_out_thread_can_no_longer_commit(
    tenants: Database, transactions: HandlerTransactions
) -> None:
    late = LateThread()
    run = Runs(transactions, late.run)
    task = asyncio.create_task(run.run(claimed()))
    await asyncio.to_thread(late.was_written.wait)

    run.clock.pending[0].go_off()
    attempt = await task
    late.may_end.set()
    await asyncio.to_thread(late.thread.join)

    assert attempt.outcome is AttemptOutcome.TIMED_OUT
    assert await rows(tenants, "acme", "meter") == []
    assert ["rolled back" in str(error) for error in late.raised] == [True, False]


async def test_a_cancelled_async_handler_rolls_back_and_can_clean_up(
    tenants: Database, transactions: HandlerTransactions
) -> None:
    was_written = asyncio.Event()

    async def clean_up(execution: Execution) -> None:
        try:
            async with execution.connection() as connection:
                await connection.execute(INSERT, {"owner": "rolled back"})
                was_written.set()
                await asyncio.Event().wait()
        finally:
            async with execution.connection() as connection:
                await connection.execute(INSERT, {"owner": "cleaned up"})

    execution = claimed()
    run = Runs(transactions, clean_up)
    task = asyncio.create_task(run.run(execution))
    await was_written.wait()

    run.executor.cancel(execution.id, Stop.CANCELLED)

    assert (await task).outcome is AttemptOutcome.CANCELLED
    assert await rows(tenants, "acme", "meter") == [(1, "cleaned up")]


async def test_a_handler_that_lost_its_lease_can_no_longer_commit(
    tenants: Database, transactions: HandlerTransactions
) -> None:
    was_written = asyncio.Event()

    async def swallow(execution: Execution) -> None:
        async with execution.connection() as connection:
            await connection.execute(INSERT, {"owner": "lost"})
            was_written.set()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.Event().wait()

    execution = claimed()
    run = Runs(transactions, swallow)
    task = asyncio.create_task(run.run(execution))
    await was_written.wait()

    run.executor.cancel(execution.id, Stop.LOST)

    assert (await task).outcome is AttemptOutcome.LOST
    assert await rows(tenants, "acme", "meter") == []


async def test_a_table_of_another_tenant_is_not_found(
    tenants: Database, transactions: HandlerTransactions
) -> None:
    async with tenants.transaction() as connection:
        await connection.exec_driver_sql('CREATE TABLE "tenant_night-owl".secret (x integer)')

    async def look(execution: Execution) -> None:
        async with execution.connection() as connection:
            await connection.execute(text("SELECT * FROM secret"))

    run = Runs(transactions, look)
    assert "UndefinedTable" in str((await run.run(claimed())).error)
    assert (await run.run(claimed(tenant="night-owl"))).error is None


async def test_the_first_transaction_of_a_handler_creates_the_engine(tenants: Database) -> None:
    unused = HandlerTransactions(tenants.target)
    await unused.close()

    assert (unused._engine, unused._plain_engine) == (None, None)
