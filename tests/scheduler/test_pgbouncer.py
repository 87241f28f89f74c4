"""Everything through PgBouncer in transaction mode, with four server connections."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.database import Server
from support.fleet import Shell
from support.lifecycle import (
    all_have_succeeded,
    executions,
    have_one_success_each,
    new_token,
    read_by_api,
    scheduler,
    succeed,
)
from support.lifecycle_handlers import SAGAS
from support.pgbouncer import POOL, PgBouncer, pooling
from support.processes import all_ended, until

REPLICAS = 2
TRIGGERED = 10


@pytest.fixture
def pooler(server: Server, run_folder: Path) -> Iterator[PgBouncer]:
    with pooling(server, run_folder) as running:
        yield running


def test_two_schedulers_and_the_api_share_four_server_connections(
    pooler: PgBouncer, empty_database_url: str, tmp_path: Path
) -> None:
    database = urlsplit(empty_database_url).path.removeprefix("/")
    shell = Shell(tmp_path, pooler.url(database))
    have_one_success_each(shell, empty_database_url)
    before = len(executions(empty_database_url))

    with ExitStack() as stack:
        for _ in range(REPLICAS):
            stack.enter_context(scheduler(shell))
        for saga in SAGAS * (TRIGGERED // len(SAGAS)):
            succeed(shell, "schedule", "trigger", f"acme/{saga}")
        until(lambda: all_ended(empty_database_url))
        assert all_have_succeeded(asyncio.run(read_by_api(shell, new_token(shell))))
        (pool,) = [row for row in pooler.pools() if row["database"] == database]

    assert all_have_succeeded(executions(empty_database_url))
    assert len(executions(empty_database_url)) == before + TRIGGERED
    # More clients than server connections: they took turns.
    assert pool["cl_active"] + pool["cl_waiting"] > POOL
    assert sum(pool[state] for state in ("sv_active", "sv_idle", "sv_used", "sv_tested")) <= POOL
