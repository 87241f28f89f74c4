"""The login roles of handlers: their creation, passwords and failures."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs
from support.attempts import claimed
from support.builds import chosen_build
from support.database import TEMPLATE, Server, migrate_url, own_server
from support.handler_sessions import HandlerSessions, handler_sessions
from support.replicas import until
from support.tenants import add_current

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.scheduler.steps.handler_connections import HandlerConnections
from tenantcron.scheduler.steps.handler_logins import HandlerLogins
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.handler_transactions import HandlerTransactions
from tenantcron.store.schema.handler_roles import HandlerRoleError

WHO = "SELECT session_user"
ROLES = (
    "SELECT rolname FROM pg_roles WHERE starts_with(rolname, tenantcron.handler_role()) ORDER BY 1"
)
# An owner of the functions that may not create roles.
WEAK = """
CREATE ROLE weak_{number};
GRANT USAGE, CREATE ON SCHEMA tenantcron TO weak_{number};
GRANT SELECT, UPDATE ON tenantcron.handler_login TO weak_{number};
GRANT SELECT, UPDATE ON tenantcron.tenant TO weak_{number};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenantcron TO weak_{number};
ALTER FUNCTION tenantcron.ensure_handler_role(text, text) OWNER TO weak_{number};
"""


@pytest.fixture
async def sessions(database: Database) -> AsyncIterator[HandlerSessions]:
    async with handler_sessions(database) as opened:
        yield opened


@pytest.fixture(scope="module")
def strict_server(run_folder: Path) -> Iterator[Server]:
    """A server that requires a password from all roles except its owner."""
    with own_server(run_folder, {}, chosen_build()) as server:
        rules = Path(str(server.execute("SHOW hba_file")[0][0]))
        rules.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        server.execute("SELECT pg_reload_conf()")
        server.execute("CREATE DATABASE {}", TEMPLATE)
        asyncio.run(migrate_url(server.url(TEMPLATE)))
        yield server


@pytest.fixture
async def strict(strict_server: Server, tmp_path: Path) -> AsyncIterator[HandlerSessions]:
    """The same on that server."""
    with strict_server.database(TEMPLATE) as url:
        settings = Settings(database_url=url, folder=tmp_path)
        async with open_database(settings) as database, handler_sessions(database) as opened:
            yield opened


def connect_as(sessions: HandlerSessions, user: str, password: str) -> None:
    parameters = {**sessions.database.target.parameters, "user": user, "password": password}
    psycopg.connect(make_conninfo("", **parameters)).close()


async def test_the_role_of_a_tenant_is_created_with_its_first_connection(
    sessions: HandlerSessions,
) -> None:
    HandlerConnections(sessions.transactions)(claimed(tenant="acme"))
    assert await sessions.admin(ROLES) == []

    await sessions.run("acme", WHO)

    group, own = await sessions.role(None), await sessions.role("acme")
    assert await sessions.admin(ROLES) == [(group,), (own,)]
    assert own == f"{group}_acme"


async def test_databases_on_one_server_have_different_roles(
    sessions: HandlerSessions, server: Server, tmp_path: Path
) -> None:
    with server.database(TEMPLATE) as url:
        settings = Settings(database_url=url, folder=tmp_path)
        async with open_database(settings) as database, handler_sessions(database) as others:
            [[own]] = await sessions.run("acme", WHO)
            [[other]] = await others.run("acme", WHO)
            assert own != other
            logins = [await each.login("acme") for each in (sessions, others)]
            assert logins[0].password != logins[1].password


async def test_concurrent_requests_create_a_role_once(
    database: Database, sessions: HandlerSessions
) -> None:
    async with database.transaction() as connection:
        for number in range(4):
            await add_current(connection, f"t{number}")
    asking = [
        HandlerLogins(database).get(TenantId(tenant))
        for tenant in ("acme", "t0", "t1", "t2", "t3")
        for _ in range(4)
    ]

    logins = await asyncio.gather(*asking)

    assert len({login.user for login in logins}) == 5
    assert await sessions.run("acme", WHO) == [(logins[0].user,)]


async def test_handlers_log_in_with_a_password_if_the_server_requires_one(
    strict: HandlerSessions,
) -> None:
    assert await strict.run("acme", WHO) == [(await strict.role("acme"),)]
    assert await strict.run_plain("night-owl", WHO) == [(await strict.role("night-owl"),)]


async def test_the_password_of_one_tenant_does_not_work_for_another(
    strict: HandlerSessions,
) -> None:
    acme, other = await strict.login("acme"), await strict.login("night-owl")
    connect_as(strict, acme.user, acme.password)

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect_as(strict, other.user, acme.password)
    assert acme.password not in repr(acme)


async def test_the_server_stores_the_password_as_a_verifier(strict: HandlerSessions) -> None:
    login = await strict.login("acme")

    stored = "SELECT rolpassword LIKE 'SCRAM-SHA-256$%' FROM pg_authid WHERE rolname = :user"
    assert await strict.admin(stored, user=login.user) == [(True,)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER ROLE \"{role}\" PASSWORD 'other'",
        'ALTER ROLE "{role}" PASSWORD NULL',
        'DROP OWNED BY "{role}"; DROP ROLE "{role}"',
        "UPDATE tenantcron.handler_login SET secret = 'other'",
    ],
)
async def test_a_failed_login_is_repaired(strict: HandlerSessions, change: str) -> None:
    await strict.run("acme", WHO)
    role = await strict.role("acme")
    await strict.transactions.close()
    async with strict.database.transaction() as connection:
        await connection.exec_driver_sql(change.format(role=role))

    assert await strict.run("acme", WHO) == [(role,)]
    assert await strict.run_plain("acme", "SELECT note FROM ledger") == [("secret",)]


async def test_a_handler_that_changes_its_password_does_not_lock_out_others(
    strict: HandlerSessions,
) -> None:
    await strict.run("acme", "ALTER ROLE CURRENT_USER PASSWORD 'mine'")
    await strict.transactions.close()

    assert await strict.run("acme", WHO) == [(await strict.role("acme"),)]
    with pytest.raises(psycopg.OperationalError):
        connect_as(strict, await strict.role("acme"), "mine")


async def test_a_role_that_a_dba_has_closed_stays_closed(sessions: HandlerSessions) -> None:
    role = (await sessions.login("acme")).user
    await sessions.admin(f"ALTER ROLE {role} NOLOGIN")

    with pytest.raises(HandlerRoleError, match="is not permitted to log in"):
        await sessions.run("acme", WHO)

    can_log_in = "SELECT rolcanlogin FROM pg_roles WHERE rolname = :role"
    assert await sessions.admin(can_log_in, role=role) == [(False,)]


async def test_a_role_that_was_kept_logs_in_again_if_its_tenant_returns(
    strict: HandlerSessions,
) -> None:
    role = (await strict.login("acme")).user
    await strict.admin("CREATE TABLE tenant_acme.own ()")
    await strict.admin(f"ALTER TABLE tenant_acme.own OWNER TO {role}")
    kept = await strict.admin("SELECT tenantcron.drop_handler_role('acme')")
    assert kept == [("it owns objects",)]

    assert await strict.run("acme", WHO) == [(role,)]


# What a handler can store for its role, as the words behind ALTER ROLE.
STORED = {
    "a search path": "SET search_path = pg_catalog",
    "a timeout that ends every statement": "SET statement_timeout = 1",
    "another role": 'SET role = "{group}"',
    "a setting of this database": "IN DATABASE \"{database}\" SET work_mem = '65kB'",
}
SETTINGS = (
    "SELECT s.setconfig FROM pg_db_role_setting AS s JOIN pg_roles AS r ON r.oid = s.setrole"
    " WHERE r.rolname = tenantcron.handler_role('acme')"
)


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
async def test_settings_that_a_handler_stores_for_its_role_do_not_reach_the_next_session(
    sessions: HandlerSessions, stored: str, kind: str
) -> None:
    run = sessions.run if kind == "async" else sessions.run_plain
    [[database]] = await sessions.admin("SELECT current_database()")
    named = stored.format(group=await sessions.role(None), database=database)
    await run("acme", f"ALTER ROLE CURRENT_USER {named}")
    assert await sessions.admin(SETTINGS) != []
    await sessions.transactions.close()

    assert await run("acme", "SELECT note FROM ledger") == [("secret",)]
    assert await sessions.admin(SETTINGS) == []


async def test_a_scheduler_that_starts_removes_stored_settings(sessions: HandlerSessions) -> None:
    await sessions.run("acme", "ALTER ROLE CURRENT_USER SET work_mem = '65kB'")

    await HandlerLogins(sessions.database).get(TenantId("acme"))

    assert await sessions.admin(SETTINGS) == []


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_role_that_cannot_log_in_gets_no_other_connection(
    sessions: HandlerSessions, kind: str
) -> None:
    role = (await sessions.login("acme")).user
    await sessions.admin(f"ALTER ROLE {role} CONNECTION LIMIT 0")
    run = sessions.run if kind == "async" else sessions.run_plain

    with pytest.raises(HandlerRoleError) as caught:
        await run("acme", WHO)

    assert f"cannot log in as {role}: " in str(caught.value)
    assert "pg_hba.conf" in str(caught.value)
    assert 'handler_role = "scheduler"' in str(caught.value)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_without_the_privilege_to_create_roles_there_is_no_connection_and_one_warning(
    sessions: HandlerSessions, kind: str
) -> None:
    number = uuid4().hex
    async with sessions.database.transaction() as connection:
        await connection.exec_driver_sql(WEAK.format(number=number))
    run = sessions.run if kind == "async" else sessions.run_plain

    with capture_logs() as logs:
        for tenant in ("acme", "night-owl"):
            with pytest.raises(HandlerRoleError) as caught:
                await run(tenant, WHO)

    assert str(caught.value) == (
        "there is no database role for the handlers of `night-owl`: role "
        f"weak_{number} may not create roles. Run: ALTER ROLE weak_{number} CREATEROLE. "
        'Or set handler_role = "scheduler": handlers then have all privileges of the scheduler'
    )
    warned = [entry for entry in logs if entry["event"] == "handler_role_missing"]
    assert [entry["tenant"] for entry in warned] == ["acme"]
    assert await sessions.admin(ROLES) == []


async def test_a_tenant_that_does_not_exist_has_no_role(sessions: HandlerSessions) -> None:
    await sessions.admin("UPDATE tenantcron.tenant SET status = 'deprovisioned' WHERE id = 'acme'")

    for tenant in ("acme", "nowhere"):
        with pytest.raises(HandlerRoleError, match="there is no tenant"):
            await sessions.run(tenant, WHO)
    assert await sessions.admin(ROLES) == []


async def test_a_role_with_excessive_privileges_is_not_used(
    sessions: HandlerSessions,
) -> None:
    role = await sessions.role("acme")
    for attribute in ("SUPERUSER", "CREATEROLE", "BYPASSRLS"):
        await sessions.admin(f"CREATE ROLE {role} LOGIN {attribute}")

        with pytest.raises(HandlerRoleError, match="attributes that no handler may have"):
            await sessions.run("acme", WHO)

        await sessions.admin(f"DROP ROLE {role}")


async def test_only_verifiers_are_stored_as_passwords(strict: HandlerSessions) -> None:
    await strict.login("acme")
    await strict.admin("SELECT tenantcron.ensure_handler_role('acme', 'plain')")

    with pytest.raises(psycopg.OperationalError):
        connect_as(strict, await strict.role("acme"), "plain")


async def test_a_handler_that_locks_its_role_does_not_block_other_tenants(
    sessions: HandlerSessions,
) -> None:
    logins = HandlerLogins(sessions.database)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    waiting += " AND query LIKE '%ensure_handler_role%' AND datname = current_database()"

    async def waits() -> bool:
        return await sessions.admin(waiting) == [(1,)]

    async with sessions.of("acme") as connection:
        await connection.exec_driver_sql("ALTER ROLE CURRENT_USER PASSWORD 'mine'")
        repair = asyncio.create_task(logins.get(TenantId("acme"), repair=True))
        await until(waits)

        await logins.get(TenantId("night-owl"))
        assert not repair.done()

        with pytest.raises(HandlerRoleError, match="is locked by another session"):
            await repair


async def test_an_isolated_process_gets_no_credentials_of_the_scheduler(
    strict: HandlerSessions,
) -> None:
    secrets = dict.fromkeys(
        ("password", "passfile", "service", "sslcert", "sslkey", "sslpassword"), "of the scheduler"
    )
    parameters = {**strict.database.target.parameters, **secrets}
    target = type(strict.database.target)(parameters)
    transactions = HandlerTransactions(target, HandlerLogins(strict.database))
    scoped = HandlerConnections(transactions)(claimed(tenant="acme"))

    arguments = scoped.portable().arguments

    assert "of the scheduler" not in str(arguments)
    assert "user" not in arguments["target"]  # type: ignore[operator] # an object
    assert (await scoped.login(repair=False))["user"] == await strict.role("acme")


async def test_handlers_use_the_schedulers_login_if_configured(
    sessions: HandlerSessions,
) -> None:
    transactions = HandlerTransactions(sessions.database.target)
    unbounded = HandlerSessions(sessions.database, transactions)

    assert await unbounded.run("acme", WHO) == [("postgres",)]
    assert await unbounded.run_plain("acme", WHO) == [("postgres",)]
    await unbounded.run("acme", "CREATE TEMP TABLE left_behind ()")
    left = "SELECT to_regclass('pg_temp.left_behind')"
    assert await unbounded.run("night-owl", left) == [(None,)]
    await transactions.close()


async def test_the_error_says_what_the_owner_of_an_adopted_schema_must_grant(
    sessions: HandlerSessions,
) -> None:
    number = uuid4().hex
    grants = (
        f"GRANT USAGE ON SCHEMA tenant_acme TO weak_{number} WITH GRANT OPTION;"
        f" GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenant_acme"
        f" TO weak_{number} WITH GRANT OPTION"
    )
    async with sessions.database.transaction() as connection:
        await connection.exec_driver_sql(WEAK.format(number=number))
        await connection.exec_driver_sql(f"ALTER ROLE weak_{number} CREATEROLE")
        await connection.exec_driver_sql(
            f"GRANT USAGE ON SCHEMA tenantcron TO weak_{number} WITH GRANT OPTION;"
            f"GRANT EXECUTE ON FUNCTION tenantcron.acting() TO weak_{number} WITH GRANT OPTION"
        )

    with pytest.raises(HandlerRoleError) as caught:
        await sessions.run("acme", WHO)
    assert grants in str(caught.value)
    assert await sessions.admin(ROLES) == []

    async with sessions.database.transaction() as connection:
        await connection.exec_driver_sql(grants)
    assert await sessions.run("acme", "SELECT note FROM ledger") == [("secret",)]
    with pytest.raises(DBAPIError, match="permission denied"):
        await sessions.run("acme", "UPDATE tenant_schedule SET enabled = true")
