"""Schedulers and the API behind PgBouncer in transaction mode, with four server connections."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.database import Server
from support.fleet import Shell
from support.lifecycle import (
    COUNT_FROM_EARLIER,
    EFFECTS,
    HANDLERS,
    all_have_succeeded,
    apply,
    executions,
    have_one_success_each,
    new_token,
    read_by_api,
    scheduler,
    succeed,
)
from support.lifecycle_handlers import SAGAS
from support.pgbouncer import POOL, PgBouncer, pooling
from support.processes import all_ended, query, until

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
        pools = [row for row in pooler.pools() if row["database"] == database]

    assert all_have_succeeded(executions(empty_database_url))
    assert len(executions(empty_database_url)) == before + TRIGGERED
    # More clients than server connections, so they shared them. Each role has its own pool.
    (pool,) = [row for row in pools if row["user"] == "postgres"]
    assert pool["cl_active"] + pool["cl_waiting"] > POOL
    assert sum(pool[state] for state in ("sv_active", "sv_idle", "sv_used", "sv_tested")) <= POOL
    assert any(str(row["user"]).endswith("_acme") for row in pools)


def test_handlers_get_no_connection_from_a_pooler_with_a_single_login(
    server: Server, run_folder: Path, empty_database_url: str, tmp_path: Path
) -> None:
    database = urlsplit(empty_database_url).path.removeprefix("/")
    with pooling(server, run_folder, as_one_user=True) as pooler:
        shell = Shell(tmp_path, pooler.url(database))
        succeed(shell, "migrate")
        apply(shell)
        query(empty_database_url, EFFECTS)
        query(empty_database_url, COUNT_FROM_EARLIER)
        shell("run", "--handlers", HANDLERS, "--once")

    why = query(empty_database_url, "SELECT error FROM tenantcron.execution_attempt")
    assert why
    assert all(
        "_acme belongs to postgres: configure the pooler to pass the user on" in row["error"]
        for row in why
    )
    assert query(empty_database_url, "SELECT id FROM tenant_acme.effect") == []
