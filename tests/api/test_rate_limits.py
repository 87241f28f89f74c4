"""Allowances: reads of a busy token without a database query for each."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.fleet import query
from support.serving import Api, new_token, served

from tenantcron.actor.api_tokens import PresentedToken, read_token
from tenantcron.api.serving import open_service
from tenantcron.core.settings import Settings
from tenantcron.service.rate_limits import LIFE, Allowances
from tenantcron.store.connection.engine import Database

PATIENCE = timedelta(seconds=10)


@dataclass
class Seconds:
    """A clock that the test advances."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def presented(token: str) -> PresentedToken:
    found = read_token(token)
    assert found is not None
    return found


def counted(url: str) -> int:
    (row,) = query(url, "SELECT sum(requests)::int AS requests FROM tenantcron.api_usage")
    return int(row["requests"])


async def lasting(database: Database, url: str) -> PresentedToken:
    """Create a token whose minute does not end, because it is in the future."""
    token = presented(await new_token(database, "viewer"))
    begin = (
        "INSERT INTO tenantcron.api_usage (caller, window_start, requests)"
        " SELECT concat('token:', id), date_trunc('minute', now()) + interval '1 hour', 0"
        " FROM tenantcron.api_token"
    )
    query(url, begin)
    return token


async def test_a_revoked_token_reads_for_up_to_a_second_and_writes_nothing(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    clock = Seconds()
    token = await new_token(database, "admin")
    service = await open_service(database, Settings(folder=tmp_path), anonymous=False)
    allowances = Allowances(database, 100_000, PATIENCE, clock)
    watched = replace(service, callers=replace(service.callers, allowances=allowances))
    async with served(watched) as url, Api(database, url, watched).with_token(token) as client:
        for _ in range(10):
            assert (await client.get("/v1/tenants")).status_code == 200
        query(database_url, "UPDATE tenantcron.api_token SET revoked_at = now()")
        clock.now += LIFE * 0.75
        changed = await client.post("/v1/tenants", json={"tenant": "acme"})
        read = await client.get("/v1/tenants")
        clock.now += LIFE * 0.25
        later = await client.get("/v1/tenants")

    assert (changed.status_code, read.status_code, later.status_code) == (401, 200, 401)
    assert query(database_url, "TABLE tenantcron.tenant") == []


async def test_a_reused_authentication_has_the_current_time(database: Database) -> None:
    clock = Seconds()
    token = presented(await new_token(database, "viewer", lives=timedelta(seconds=60)))
    allowances = Allowances(database, 100_000, PATIENCE, clock)
    for _ in range(4):
        found = await allowances.read(token)
    first = found
    clock.now += LIFE / 2
    found = await allowances.read(token)

    assert first is not None
    assert found is not None
    assert found.now - first.now == timedelta(seconds=LIFE / 2)


async def test_reads_of_a_busy_token_are_counted_in_batches(
    database: Database, database_url: str
) -> None:
    clock = Seconds()
    token = await lasting(database, database_url)
    allowances = Allowances(database, 100_000, PATIENCE, clock)

    for _ in range(100):
        assert await allowances.read(token) is not None
    ahead = counted(database_url)
    clock.now += LIFE
    await allowances.read(token)
    clock.now += 2 * LIFE
    await allowances.read(token)

    # 1, 2, 4, 8 and so on are reserved, which makes 127 for a hundred.
    assert ahead == 127
    # Unused requests are released, and requests of an idle token are counted one by one.
    assert counted(database_url) == 102


async def test_unused_requests_of_a_past_minute_are_not_released_to_the_next(
    database: Database, database_url: str
) -> None:
    clock = Seconds()
    token = await lasting(database, database_url)
    allowances = Allowances(database, 100_000, PATIENCE, clock)
    for _ in range(4):
        await allowances.read(token)
    past = "UPDATE tenantcron.api_usage SET window_start = window_start - interval '1 day'"
    query(database_url, past)
    clock.now += 2 * LIFE
    await allowances.read(token)

    assert counted(database_url) == 1


@pytest.mark.parametrize("limit", [7, 150])
async def test_all_processes_together_serve_exactly_the_limit(
    database: Database, database_url: str, limit: int
) -> None:
    token = await lasting(database, database_url)
    processes = [Allowances(database, limit, PATIENCE, Seconds()) for _ in range(3)]

    async def is_served(allowances: Allowances) -> bool:
        found = await allowances.read(token)
        assert found is not None
        assert found.usage is not None
        return found.usage.requests <= limit

    rounds = [process for process in processes for _ in range(limit)]
    got = await asyncio.gather(*(is_served(process) for process in rounds))

    assert sum(got) == limit


async def test_the_last_requests_of_a_minute_are_counted_one_by_one(
    database: Database, database_url: str
) -> None:
    token = await lasting(database, database_url)
    first, second = (Allowances(database, 50, PATIENCE, Seconds()) for _ in range(2))
    got = 0
    for number in range(120):
        found = await (first if number < 30 else second).read(token)
        assert found is not None
        assert found.usage is not None
        got += found.usage.requests <= 50

    # The allowance of the first process is missing: at most a tenth of the rest.
    assert 46 <= got <= 50


async def test_a_wrong_secret_cannot_use_the_allowance_of_the_right_one(api: Api) -> None:
    token = await new_token(api.database, "viewer")
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    async with api.with_token(token) as good, api.with_token(wrong) as bad:
        for _ in range(5):
            assert (await good.get("/v1/tenants")).status_code == 200
        assert (await bad.get("/v1/tenants")).status_code == 401
