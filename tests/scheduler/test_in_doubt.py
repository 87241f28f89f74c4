"""A claim whose response was lost: it started nothing, so it uses up no attempt."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from support.patience import PATIENCE
from support.proxy import Network, network
from support.replicas import Works, at_work, due, made, until_idle, until_state
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.scheduler.replica import claim_loop
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.scheduler.steps.start_at_once import FiredAndClaimed, fire_and_claim
from tenantcron.store.connection.engine import open_database
from tenantcron.store.connection.errors import DatabaseAwayError

CLAIM, GIVE_BACK = b"WITH RECURSIVE clock", b"attempt = e.attempt - 1"
# Leases outlive the test, so nothing is recovered.
LEASE = timedelta(minutes=10)


@pytest.fixture
async def between(real: Scheduling, database_url: str) -> AsyncIterator[tuple[Network, Scheduling]]:
    """A lossy network, and the database behind it."""
    async with network(database_url) as (lossy, url):
        settings = Settings(database_url=url, folder=real.settings.folder)
        async with open_database(settings) as database:
            distant = replace(real.settings, lease=LEASE)
            yield lossy, replace(real, database=database, settings=distant)


async def quick(real: Scheduling) -> None:
    """Add a pending execution with one attempt."""
    await real.waiting(saga_name="quick", not_before="2026-01-01", attempts_allowed=1)


async def test_executions_of_a_lost_claim_are_released_and_run_as_the_first_attempt(
    real: Scheduling, between: tuple[Network, Scheduling]
) -> None:
    lossy, distant = between
    works = Works()
    await quick(real)
    lossy.lose_answer = CLAIM

    with capture_logs() as logs:
        async with at_work(distant, works):
            await until_state(real, "SUCCEEDED")

    assert lossy.lost == 1
    assert [line["executions"] for line in logs if line["event"] == "executions_given_back"] == [1]
    assert [call.attempt for call in works.calls] == [1]
    (row,) = await real.rows()
    # No attempt except the one in the row of the execution.
    assert (row["attempt"], await real.rows("execution_attempt", "1")) == (1, [])


async def test_executions_that_were_fired_and_claimed_at_once_are_released_too(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    works, lost = Works(), list[FiredAndClaimed]()

    async def lose_the_first(replica: Replica, room: int) -> FiredAndClaimed:
        found = await fire_and_claim(replica, room)
        if found.claim and not lost:
            lost.append(found)
            raise DatabaseAwayError("the response to the commit was lost")
        return found

    monkeypatch.setattr(claim_loop, "fire_and_claim", lose_the_first)
    with capture_logs() as logs:
        async with at_work(
            replace(real, settings=replace(real.settings, lease=LEASE)), works
        ) as run:
            await until_idle(run)
            await due(real, "quick")
            await until_state(real, "SUCCEEDED")

    assert len(lost) == 1
    assert [line["executions"] for line in logs if line["event"] == "executions_given_back"] == [1]
    assert [call.attempt for call in works.calls] == [1]


async def test_running_executions_are_not_released(
    real: Scheduling, between: tuple[Network, Scheduling]
) -> None:
    lossy, distant = between
    works = Works()
    await due(real, "slow", start_within="1m")

    async with at_work(distant, works):
        async with asyncio.timeout(PATIENCE):
            await works.called.wait()
        await quick(real)
        lossy.lose_answer = CLAIM
        await until_state(real, "SUCCEEDED")
        works.go.set()
        await until_state(real, "SUCCEEDED", 2)

    assert lossy.lost == 1
    assert sorted((call.saga_name, call.attempt) for call in works.calls) == [
        ("quick", 1),
        ("slow", 1),
    ]


async def test_executions_that_could_not_be_released_are_released_at_shutdown(
    real: Scheduling, between: tuple[Network, Scheduling], monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy, distant = between
    works = Works()
    await quick(real)

    async with made(distant, works) as run:

        async def claim_and_stop(*arguments: object) -> object:
            claim = await claim_batch(*arguments)  # type: ignore[arg-type] # as given
            if claim.started:
                lossy.lose_request = GIVE_BACK
                run.stop()
            return claim

        monkeypatch.setattr(claim_loop, "claim_batch", claim_and_stop)
        async with asyncio.timeout(PATIENCE):
            await run.run()

    assert (lossy.lost, works.calls) == (1, [])
    (row,) = await real.rows()
    assert (row["state"], row["attempt"], row["lease_token"]) == ("PENDING", 0, None)
