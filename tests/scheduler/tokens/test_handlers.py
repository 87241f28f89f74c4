"""Tokens in handlers: the methods of `Execution`, and the outcome of the attempt."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from support.attempts import SETTINGS, HandClock
from support.minting import BILLING, TIMEOUT, read
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome, Stop
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.handler_connections import HandlerConnections
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.scheduler.tokens.token_minting import Minter, MintFailure
from tenantcron.store.connection.handler_transactions import HandlerTransactions
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler, HandlerFunction, SourceLocation
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.signals import Cancelled
from tenantcron.targets.tokens import TokenError


@pytest.fixture
async def transactions(scheduling: Scheduling) -> AsyncIterator[HandlerTransactions]:
    opened = HandlerTransactions(scheduling.database.target, size=1)
    yield opened
    await opened.close()


async def run(
    function: HandlerFunction, minter: Minter, claimed: Claimed, transactions: HandlerTransactions
) -> Attempt:
    is_async = asyncio.iscoroutinefunction(function)
    handler = Handler("work", function, is_async, SourceLocation("m", "f", "x", 1))
    connections = HandlerConnections(transactions)
    executor = Executor(Handlers.of([handler]), connections, tokens=minter, call_later=HandClock())
    return await executor.run(claimed, SETTINGS)


async def test_an_async_handler_awaits_its_token(
    minter: Minter, keys: SigningKeys, claimed: Claimed, transactions: HandlerTransactions
) -> None:
    got: list[str] = []

    async def work(execution: Execution) -> None:
        got.append(await execution.token(BILLING))

    attempt = await run(work, minter, claimed, transactions)

    assert attempt.outcome is AttemptOutcome.SUCCEEDED
    assert (await read(got[0], keys))["execution"] == str(claimed.id)


async def test_a_plain_handler_gets_its_token_in_its_thread(
    minter: Minter, keys: SigningKeys, claimed: Claimed, transactions: HandlerTransactions
) -> None:
    got: list[str] = []

    def work(execution: Execution) -> None:
        got.append(execution.token_plain(BILLING))

    attempt = await run(work, minter, claimed, transactions)

    assert attempt.outcome is AttemptOutcome.SUCCEEDED
    assert (await read(got[0], keys))["execution"] == str(claimed.id)


async def test_a_plain_handler_with_its_own_event_loop_gets_its_token_there(
    minter: Minter, keys: SigningKeys, claimed: Claimed, transactions: HandlerTransactions
) -> None:
    got: list[str] = []

    def work(execution: Execution) -> None:
        async def inside() -> None:
            got.extend(await asyncio.gather(execution.token(BILLING), execution.token(BILLING)))

        asyncio.run(inside())

    attempt = await run(work, minter, claimed, transactions)

    assert attempt.error is None
    assert len({(await read(token, keys))["jti"] for token in got}) == 2


async def test_a_handler_that_holds_the_last_connection_gets_its_token(
    minter: Minter, claimed: Claimed, transactions: HandlerTransactions
) -> None:
    async def work(execution: Execution) -> None:
        async with execution.connection():
            await execution.token(BILLING)

    assert (await run(work, minter, claimed, transactions)).error is None


async def test_a_token_that_cannot_be_minted_fails_the_attempt(
    scheduling: Scheduling, minter: Minter, claimed: Claimed, transactions: HandlerTransactions
) -> None:
    async def awaits(execution: Execution) -> None:
        await execution.token(BILLING)

    def plain(execution: Execution) -> None:
        execution.token_plain(BILLING)

    await scheduling.execute("UPDATE tenantcron.tenant SET status = 'suspended'")
    for work in (awaits, plain):
        attempt = await run(work, minter, claimed, transactions)
        assert (attempt.outcome, attempt.final) == (AttemptOutcome.FAILED, False)
        assert str(attempt.error).startswith("TokenError: no token: tenant acme is suspended\n")
    assert minter.counts.failed[MintFailure.TENANT] == 2


async def test_the_wrong_method_names_the_right_one(
    minter: Minter, claimed: Claimed, transactions: HandlerTransactions
) -> None:
    async def awaits(execution: Execution) -> None:
        execution.token_plain(BILLING)

    def plain(execution: Execution) -> None:
        execution.token(BILLING)

    errors = [
        str((await run(work, minter, claimed, transactions)).error) for work in (awaits, plain)
    ]

    assert "use await execution.token(audience)" in errors[0]
    assert "use token_plain(audience)" in errors[1]


async def test_a_handler_gets_an_error_after_its_attempt_has_ended(
    minter: Minter, claimed: Claimed, transactions: HandlerTransactions
) -> None:
    advance, raised = threading.Event(), list[BaseException]()
    begun, over = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(execution: Execution) -> None:
        loop.call_soon_threadsafe(begun.set)
        advance.wait()
        try:
            execution.token_plain(BILLING)
        except BaseException as error:  # noqa: BLE001 -- which one it is, is the question
            raised.append(error)
        loop.call_soon_threadsafe(over.set)

    handler = Handler("work", work, is_async=False, place=SourceLocation("m", "f", "x", 1))
    connections = HandlerConnections(transactions)
    executor = Executor(Handlers.of([handler]), connections, tokens=minter, call_later=HandClock())
    attempt = asyncio.create_task(executor.run(claimed, SETTINGS))
    await begun.wait()
    executor.cancel(claimed.id, Stop.TIMED_OUT)
    await attempt
    advance.set()
    await over.wait()

    assert [type(error) for error in raised] == [Cancelled]
    assert "no more tokens" in str(raised[0])
    assert minter.counts.minted == 0


async def test_a_thread_that_outlives_the_scheduler_gets_a_clear_error(
    scheduling: Scheduling, settings: Settings, claimed: Claimed
) -> None:
    minter = Minter(scheduling.database, settings, scheduling.clock)
    gone = asyncio.new_event_loop()
    gone.close()
    minter.loop = gone

    with pytest.raises(TokenError, match="the scheduler has stopped"):
        await asyncio.to_thread(minter(claimed, TIMEOUT).mint_plain, BILLING)


async def test_an_executor_without_tokens_says_so(
    claimed: Claimed, transactions: HandlerTransactions
) -> None:
    async def work(execution: Execution) -> None:
        await execution.token(BILLING)

    handler = Handler("work", work, is_async=True, place=SourceLocation("m", "f", "x", 1))
    executor = Executor(
        Handlers.of([handler]), HandlerConnections(transactions), call_later=HandClock()
    )

    assert "cannot mint tokens" in str((await executor.run(claimed, SETTINGS)).error)
