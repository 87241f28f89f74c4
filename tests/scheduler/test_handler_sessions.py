"""The next handler on a database connection sees a clean session."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier
from sqlalchemy.exc import DBAPIError
from support.attempts import claimed
from support.handler_sessions import HandlerSessions, Row, handler_sessions
from support.patience import PATIENCE
from support.replicas import until
from support.tenants import add_current

from tenantcron.scheduler.steps.handler_connections import HandlerConnections
from tenantcron.store.connection import handler_pool
from tenantcron.store.connection.engine import Database

# The group role of handlers is the only other role that a handler can set.
SET_ROLE = """
DO $$ BEGIN EXECUTE (
    SELECT 'SET ROLE ' || m.roleid::regrole FROM pg_auth_members AS m
    WHERE m.member = session_user::regrole
); END $$
"""
# What a handler changes in its session, how the next one checks it, and the expected result.
LEFT_BEHIND = {
    "temporary table": (
        "CREATE TEMP TABLE left_behind AS SELECT 'secret' AS note",
        "SELECT to_regclass('pg_temp.left_behind')",
        None,
    ),
    "role": (SET_ROLE, "SELECT current_user = session_user", True),
    "setting": ("SET work_mem = '3MB'", "SELECT current_setting('work_mem') <> '3MB'", True),
    "time zone": (
        "SET timezone = 'Asia/Tokyo'",
        "SELECT current_setting('timezone') <> 'Asia/Tokyo'",
        True,
    ),
    "custom setting": (
        "SELECT set_config('platform.user', 'ada', false)",
        "SELECT coalesce(current_setting('platform.user', true), '')",
        "",
    ),
    "actor": (
        "SELECT set_config('tenantcron.owner', 'ada', false)",
        "SELECT coalesce(current_setting('tenantcron.owner', true), '')",
        "",
    ),
    "transaction defaults": (
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY",
        "SELECT current_setting('default_transaction_isolation')",
        "read committed",
    ),
    "prepared statement": (
        "PREPARE left_behind AS SELECT 1",
        "SELECT count(*) FROM pg_prepared_statements",
        0,
    ),
    "cursor": (
        "DECLARE left_behind CURSOR WITH HOLD FOR SELECT 1",
        "SELECT count(*) FROM pg_cursors WHERE name = 'left_behind'",
        0,
    ),
    "advisory lock": (
        "SELECT pg_advisory_lock(42)",
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42",
        0,
    ),
    "listening": ("LISTEN left_behind", "SELECT count(*) FROM pg_listening_channels()", 0),
}
PID = "SELECT pg_backend_pid()"


@pytest.fixture
async def sessions(database: Database) -> AsyncIterator[HandlerSessions]:
    async with handler_sessions(database) as opened:
        yield opened


Run = Callable[..., Awaitable[list[Row]]]


@pytest.fixture(params=["async", "plain"])
def run(request: pytest.FixtureRequest, sessions: HandlerSessions) -> Run:
    return sessions.run if request.param == "async" else sessions.run_plain


def expected(of: object) -> dict[str, object]:
    return {name: (seen, of) for name, (_, _, seen) in LEFT_BEHIND.items()}


async def test_the_next_handler_of_the_tenant_sees_a_clean_session(run: Run) -> None:
    [[pid]] = await run("acme", PID)
    found = {}
    for name, (leave, look, _) in LEFT_BEHIND.items():
        await run("acme", leave)
        # It must be the same connection.
        found[name] = *(await run("acme", look))[0], *(await run("acme", PID))[0]

    assert found == expected(pid)


async def test_a_handler_of_another_tenant_sees_a_clean_session(run: Run) -> None:
    [[pid]] = await run("night-owl", PID)
    found = {}
    for name, (leave, look, _) in LEFT_BEHIND.items():
        [[other]] = await run("acme", leave, PID)
        assert other != pid
        found[name] = *(await run("night-owl", look))[0], *(await run("night-owl", PID))[0]

    assert found == expected(pid)


async def test_a_handler_after_an_error_sees_a_clean_session(run: Run) -> None:
    [[pid]] = await run("acme", PID)
    found = {}
    for name, (leave, look, _) in LEFT_BEHIND.items():
        with pytest.raises(DBAPIError):
            # Commit first, or the error would roll the change back.
            await run("acme", leave, "COMMIT", "BEGIN", "SELECT 1 / 0")
        found[name] = *(await run("acme", look))[0], *(await run("acme", PID))[0]

    assert found == expected(pid)


async def test_locks_are_released_when_the_transaction_ends_and_not_when_the_next_begins(
    sessions: HandlerSessions,
) -> None:
    await sessions.run("acme", "SELECT pg_advisory_lock(42)", "LISTEN left_behind")

    look, _ = LEFT_BEHIND["advisory lock"][1:]
    assert await sessions.admin(look) == [(0,)]


async def test_an_isolation_level_applies_to_one_transaction(sessions: HandlerSessions) -> None:
    async with sessions.of("acme") as connection:
        [[pid]] = await connection.exec_driver_sql(PID)
        await connection.exec_driver_sql("COMMIT")
        raw = await connection.get_raw_connection()
        await raw.driver_connection.set_autocommit(False)  # type: ignore[union-attr] # psycopg's

    level = "SELECT current_setting('transaction_isolation'), pg_backend_pid()"
    assert await sessions.run("acme", level) == [("read committed", pid)]


async def test_a_connection_that_cannot_be_reset_is_closed(sessions: HandlerSessions) -> None:
    parameters = sessions.database.target.parameters
    [[database]] = await sessions.admin("SELECT current_database()")
    await sessions.admin(f"ALTER DATABASE \"{database}\" SET lock_timeout = '20ms'")
    async with sessions.of("acme") as connection:
        await connection.exec_driver_sql("CREATE TEMP TABLE held ()")
        mine = "SELECT pg_backend_pid(), pg_my_temp_schema()::regnamespace::text"
        pid, namespace = tuple((await connection.exec_driver_sql(mine)).one())
        await connection.exec_driver_sql("COMMIT")
        blocker = psycopg.connect(make_conninfo("", **parameters))
        # DISCARD ALL waits for this lock until it times out.
        blocker.execute(SQL("LOCK TABLE {}").format(Identifier(namespace, "held")))

    assert await sessions.run("acme", PID) != [(pid,)]
    blocker.close()
    assert await sessions.run("acme", "SELECT to_regclass('pg_temp.held')") == [(None,)]


async def test_a_connection_lost_while_idle_is_replaced(
    sessions: HandlerSessions, run: Run
) -> None:
    [[pid]] = await run("acme", PID)
    terminate = "SELECT pg_terminate_backend(:pid, 10000)"
    assert await sessions.admin(terminate, pid=pid) == [(True,)]

    assert await run("acme", "SELECT note FROM ledger") == [("secret",)]
    assert await run("acme", PID) != [(pid,)]


async def test_a_lost_connection_is_not_replaced_by_one_of_the_scheduler(
    sessions: HandlerSessions,
) -> None:
    async with sessions.of("acme") as connection:
        await connection.invalidate()
        await connection.rollback()
        with pytest.raises(Exception, match="call connection"):
            await connection.exec_driver_sql("SELECT session_user")
        with pytest.raises(Exception, match="call connection"):
            await connection.engine.connect()


async def connections_of(sessions: HandlerSessions) -> set[object]:
    rows = await sessions.admin(
        "SELECT usename FROM pg_stat_activity"
        " WHERE datname = current_database() AND usename LIKE 'tc\\_%'"
    )
    return {name for (name,) in rows}


async def test_tenants_share_a_connection_limit_and_the_longest_idle_is_closed(
    database: Database,
) -> None:
    async with handler_sessions(database, size=2) as sessions:
        names = [await sessions.role(tenant) for tenant in ("acme", "night-owl", "brief")]
        async with database.transaction() as connection:
            await add_current(connection, "brief")
        await sessions.run("acme", PID)
        await sessions.run("night-owl", PID)
        await sessions.run("acme", PID)
        assert await connections_of(sessions) == {names[0], names[1]}

        await sessions.run("brief", PID)

        async def longest_idle_is_closed() -> bool:
            return await connections_of(sessions) == {names[0], names[2]}

        await until(longest_idle_is_closed)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_concurrent_handlers_each_have_the_session_of_their_tenant(
    database: Database, kind: str
) -> None:
    async with handler_sessions(database, size=3) as sessions:
        async with database.transaction() as connection:
            for number in range(4):
                await add_current(connection, f"t{number}")
        tenants = ["acme", "night-owl", *(f"t{number}" for number in range(4))] * 15
        run = sessions.run if kind == "async" else sessions.run_plain
        who = "SELECT session_user, current_schema()"

        found = await asyncio.gather(*(run(tenant, who) for tenant in tenants))

        expected = [[(await sessions.role(tenant), f"tenant_{tenant}")] for tenant in tenants]
        assert found == expected
        assert len(await connections_of(sessions)) <= 3


async def test_a_transaction_waits_for_a_connection_with_a_timeout(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with handler_sessions(database, size=1) as sessions:
        async with sessions.of("acme"):
            monkeypatch.setattr(sessions.transactions._async().pool, "_timeout", 0.05)
            with pytest.raises(Exception, match="all 1 connections of handlers, or"):
                await sessions.run("night-owl", PID)
        assert await sessions.run("night-owl", "SELECT 1") == [(1,)]


async def test_one_tenant_leaves_half_of_the_connections_to_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with handler_sessions(database, size=4) as sessions:
        async with sessions.of("acme"), sessions.of("acme"):
            monkeypatch.setattr(sessions.transactions._async().pool, "_timeout", 0.05)
            with pytest.raises(Exception, match="or the 2 that one tenant may use"):
                await sessions.run("acme", PID)
            assert await sessions.run("night-owl", "SELECT 1") == [(1,)]
        assert await sessions.run("acme", "SELECT 1") == [(1,)]


async def test_plain_handlers_of_one_tenant_leave_half_of_the_connections_to_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with handler_sessions(database, size=2) as sessions:
        begin = HandlerConnections(sessions.transactions)(claimed(tenant="acme")).begin_plain
        begun, done = threading.Event(), threading.Event()

        def hold() -> None:
            with begin():
                begun.set()
                assert done.wait(PATIENCE)

        holding = asyncio.create_task(asyncio.to_thread(hold))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        monkeypatch.setattr(sessions.transactions._plain().pool, "_timeout", 0.05)
        with pytest.raises(Exception, match="or the 1 that one tenant may use"):
            await sessions.run_plain("acme", PID)
        assert await sessions.run_plain("night-owl", "SELECT 1") == [(1,)]
        done.set()
        await holding
        assert await sessions.run_plain("acme", "SELECT 1") == [(1,)]


async def test_all_but_two_idle_connections_are_closed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with handler_sessions(database) as sessions:
        async with sessions.of("acme"), sessions.of("acme"), sessions.of("acme"):
            pass
        monkeypatch.setattr(handler_pool, "LONGEST_IDLE", -1.0)

        await sessions.run("night-owl", PID)

        pool = sessions.transactions._async().pool
        assert pool.status() == "3 of 20 connections, 3 idle"
