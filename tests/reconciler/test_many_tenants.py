"""Applying many tenants in one command: the cost per tenant does not grow."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import text
from support.cursors import run
from support.fleet import Fleet, numbered, statements
from support.patience import PATIENCE

from tenantcron.reconciler.outcome import Status
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.listening import Notification, listening
from tenantcron.store.rows.tenants import SCHEDULES_CHANGED

_PLANS = text("SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'CachedPlanSource'")
# A trigger caches three plans per tenant table; a backend has all its other plans once.
_PLANS_A_TENANT, _OTHER_PLANS = 3, 50


async def plans_kept(database: Database) -> int:
    """Return the highest number of cached plans of a backend in the pool."""
    async with AsyncExitStack() as stack:
        idle = range(database.engine.pool.checkedin())  # type: ignore[attr-defined] # a queue pool
        held = [await stack.enter_async_context(database.transaction()) for _ in idle]
        return max([await connection.scalar(_PLANS) or 0 for connection in held])


async def until_end(heard: AsyncIterator[Notification]) -> AsyncIterator[Notification]:
    """Yield the notifications before the payload `end`."""
    async for hint in heard:
        if hint.payload == "end":
            return
        yield hint


async def test_no_backend_caches_the_plans_of_many_tenants(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.reconciler.fleet.TENANTS_AT_A_TIME", 1)
    monkeypatch.setattr("tenantcron.reconciler.apply.TENANTS_A_CONNECTION", 20)
    for number in range(59):
        fleet.write(f"t{number:03}", numbered(1))

    outcomes = await fleet.apply()

    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    assert await plans_kept(fleet.database) <= 20 * _PLANS_A_TENANT + _OTHER_PLANS


async def test_a_fleet_notifies_in_separate_transactions_and_at_its_end(
    fleet: Fleet, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.reconciler.announcing.SECONDS_BETWEEN", 60.0)
    for number in range(20):
        fleet.write(f"t{number:03}", numbered(1))

    async with listening(fleet.database.target, SCHEDULES_CHANGED) as heard:
        with statements(fleet.database) as sent:
            await fleet.apply()
        run(database_url, f"NOTIFY {SCHEDULES_CHANGED}, 'end'")
        async with asyncio.timeout(PATIENCE):
            hints = [hint.payload async for hint in until_end(heard)]

    # The first notification follows the first commit, the last one follows all commits.
    notifying = [n for n, statement in enumerate(sent) if "pg_notify" in statement]
    assert 1 <= len(notifying) == len(hints) <= 2
    raising = [n for n, statement in enumerate(sent) if "SET schedule_revision" in statement]
    assert notifying[-1] > raising[-1]


async def test_an_unchanged_fleet_sends_no_notification(fleet: Fleet) -> None:
    fleet.write("acme", numbered(1))
    await fleet.apply()

    with statements(fleet.database) as sent:
        await fleet.apply()

    assert not [statement for statement in sent if "pg_notify" in statement]
