"""The read replica: history is read from a real standby, never older than the promise."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs
from support.patience import PATIENCE
from support.processes import query, until
from support.scheduling import Scheduling
from support.serving import served
from support.standby import Pair, replicated

from tenantcron.api.serving import open_service
from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import open_database, open_replica
from tenantcron.store.connection.read_replica import MOST_STALE, ReadReplica

PENDING = r"<dt>Waiting</dt>\s*<dd>(\d+)<"
CURRENT = {"Cache-Control": "no-cache"}


@pytest.fixture(scope="module")
def pair(run_folder: Path) -> Iterator[Pair]:
    """A primary and its standby."""
    with replicated(run_folder) as made:
        yield made


@dataclass(slots=True)
class Monotonic:
    """A clock that the test sets."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Reading:
    """An API whose history comes from a standby."""

    pair: Pair
    scheduling: Scheduling
    replica: ReadReplica
    clock: Monotonic
    client: httpx.AsyncClient

    async def executions(self, **headers: str) -> int:
        """Return how many executions the API lists."""
        response = await self.client.get("/v1/executions", headers=headers)
        assert response.status_code == 200, response.text
        return len(response.json()["executions"])

    async def follow(self) -> None:
        """Wait until the standby has everything that the primary has now."""
        self.clock.now += MOST_STALE.total_seconds()
        async with asyncio.timeout(PATIENCE):
            while True:
                await self.replica.check()
                if self.replica.is_fresh:
                    return


@asynccontextmanager
async def reading(pair: Pair, folder: Path, url: str) -> AsyncIterator[Reading]:
    settings, clock = Settings(folder=folder, database_url=pair.primary.url), Monotonic()
    async with (
        open_database(settings) as database,
        open_replica(url, settings.api_timeout) as standby,
    ):
        async with database.transaction() as connection:
            await connection.execute(text("TRUNCATE tenantcron.execution"))
            await connection.execute(text("DELETE FROM tenantcron.schedule_cursor"))
        scheduling = Scheduling(database, settings)
        await scheduling.prepare()
        replica = ReadReplica(standby, database, clock)
        service = await open_service(database, settings, anonymous=True, read_replica=replica)
        async with served(service) as at, httpx.AsyncClient(base_url=at) as client:
            yield Reading(pair, scheduling, replica, clock, client)


@pytest.fixture
async def api(pair: Pair, tmp_path: Path) -> AsyncIterator[Reading]:
    """An API with a standby that has one execution."""
    async with reading(pair, tmp_path, pair.standby.url) as made:
        await made.scheduling.waiting(1, not_before=datetime.now(UTC) - timedelta(minutes=1))
        await made.follow()
        yield made


@pytest.fixture
def paused(api: Reading) -> Iterator[None]:
    """Stop the replay of the standby during a test, as a long query on it can."""
    pair = api.pair
    query(pair.standby.url, "SELECT pg_wal_replay_pause()")
    state = "SELECT pg_get_wal_replay_pause_state() AS state"
    until(lambda: query(pair.standby.url, state)[0]["state"] == "paused")
    yield
    query(pair.standby.url, "SELECT pg_wal_replay_resume()")


@pytest.mark.usefixtures("paused")
async def test_lists_may_be_stale_but_a_client_can_ask_for_the_current_state(api: Reading) -> None:
    await api.scheduling.waiting(1)
    assert await api.executions() == 1
    assert await api.executions(**CURRENT) == 2
    ids = [row["id"] for row in await api.scheduling.rows()]
    found = [await api.client.get(f"/v1/executions/{execution}") for execution in ids]
    assert [response.status_code for response in found] == [200, 200]


@pytest.mark.usefixtures("paused")
async def test_a_standby_that_lags_too_long_is_not_read_until_it_has_caught_up(
    api: Reading,
) -> None:
    await api.scheduling.waiting(1)
    api.clock.now += MOST_STALE.total_seconds() - 0.1
    await api.replica.check()
    assert await api.executions() == 1
    api.clock.now += 0.2
    with capture_logs() as logs:
        await api.replica.check()
    assert await api.executions() == 2
    assert [event["event"] for event in logs] == ["read_replica_skipped"]
    assert logs[0]["reason"] == "it is more than 5 s behind"
    query(api.pair.standby.url, "SELECT pg_wal_replay_resume()")
    await api.follow()
    assert await api.executions() == 2


async def test_a_standby_without_new_checks_is_not_read_for_long(api: Reading) -> None:
    api.clock.now += MOST_STALE.total_seconds()
    assert not api.replica.is_fresh


@pytest.mark.usefixtures("paused")
async def test_a_new_tenant_is_found_before_the_standby_has_it(api: Reading) -> None:
    await api.scheduling.tenant("globex")
    response = await api.client.get("/v1/tenants/globex/audit-records")
    assert response.status_code == 200, response.text


@pytest.mark.usefixtures("paused")
async def test_a_page_after_an_action_shows_the_action(api: Reading) -> None:
    (row,) = await api.scheduling.rows()
    pending = _pending(await api.client.get("/ui"))
    page = f"/ui/executions/{row['id']}"
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', (await api.client.get(page)).text)
    assert csrf is not None
    form = {"csrf": csrf[1], "reason": "wrong month"}
    done = await api.client.post(f"{page}/cancel", data=form)
    assert done.status_code == 303, done.text
    assert _pending(await api.client.get("/ui")) == "0"
    api.client.cookies.delete("tenantcron_changed")
    assert _pending(await api.client.get("/ui")) == pending == "1"


def _pending(page: httpx.Response) -> str:
    """Return how many executions the overview shows as pending."""
    assert page.status_code == 200, page.text
    found = re.search(PENDING, page.text)
    assert found is not None, page.text
    return found[1]


async def test_reads_on_the_standby_see_the_callers_tenant_only(api: Reading) -> None:
    """Row-level security applies there as well, because the transaction sets the same role."""
    row = await api.replica.read(
        _role, primary=api.scheduling.database, seen=lambda database: database.seen_by(None)
    )
    assert row == ("tenantcron_api", True, True)


async def _role(connection: object) -> tuple[object, ...]:
    statement = (
        "SELECT current_user, pg_is_in_recovery(),"
        " current_setting('transaction_read_only')::boolean"
    )
    rows = await connection.exec_driver_sql(statement)  # type: ignore[attr-defined] # as given
    return tuple(rows.one())


async def test_a_server_that_is_not_a_standby_is_not_read(pair: Pair, tmp_path: Path) -> None:
    async with reading(pair, tmp_path, pair.primary.url) as api:
        await api.replica.check()
        assert not api.replica.is_fresh
        assert await api.executions() == 0


async def test_a_read_is_repeated_on_the_primary_if_the_standby_is_down(
    pair: Pair, tmp_path: Path
) -> None:
    async with reading(pair, tmp_path, pair.standby.url) as api:
        await api.scheduling.waiting(1)
        await api.follow()
        pair.standby.stop()
        try:
            with capture_logs() as logs:
                assert await api.executions() == 1
            assert "read_replica_skipped" in [event["event"] for event in logs]
            await api.replica.check()
            assert not api.replica.is_fresh
        finally:
            pair.standby.start()
        await api.follow()
