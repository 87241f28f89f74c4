# ruff: noqa: S608 -- the statements are the test's own
"""A handler can access the tables of its tenant and nothing else."""

from collections.abc import AsyncIterator

import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy.exc import DBAPIError
from support.handler_sessions import HandlerSessions, handler_sessions

from tenantcron.store.connection.engine import Database
from tenantcron.store.schema.handler_roles import HandlerRoleError

OTHER = '"tenant_night-owl"'
PUBLIC = """
CREATE TABLE public.theirs (id int);
INSERT INTO public.theirs VALUES (1);
CREATE TABLE public.shared (id int);
"""
# {acme} and {other} are the roles of two tenants, {group} is their common group role.
REFUSED = {
    # Another tenant.
    "read another tenant": f"SELECT * FROM {OTHER}.ledger",
    "write to another tenant": f"INSERT INTO {OTHER}.ledger (note) VALUES ('x')",
    "change another tenant": f"UPDATE {OTHER}.ledger SET note = 'x'",
    "delete of another tenant": f"DELETE FROM {OTHER}.ledger",
    "truncate another tenant": f"TRUNCATE {OTHER}.ledger",
    "lock another tenant": f"LOCK TABLE {OTHER}.ledger IN ACCESS SHARE MODE",
    "explain another tenant": f"EXPLAIN SELECT * FROM {OTHER}.ledger",
    "count on another tenant's sequence": f"SELECT nextval('{OTHER}.ledger_id_seq')",
    "call another tenant's function": f"SELECT {OTHER}.remember()",
    "another tenant as XML": f"SELECT table_to_xml('{OTHER}.ledger', true, false, '')",
    "copy another tenant": f"COPY {OTHER}.ledger TO STDOUT",
    # The control schema.
    "read tenants": "SELECT * FROM tenantcron.tenant",
    "read executions": "SELECT * FROM tenantcron.execution",
    "read leases": "SELECT lease_token FROM tenantcron.execution_live",
    "read the secret of the passwords": "SELECT secret FROM tenantcron.handler_login",
    "read signing keys": "SELECT * FROM tenantcron.signing_key",
    "read API tokens": "SELECT * FROM tenantcron.api_token",
    "write the audit": "INSERT INTO tenantcron.audit_record (entity_type) VALUES ('tenant')",
    "raise the limits": "UPDATE tenantcron.limits SET operator = 1000",
    "forge an event": "INSERT INTO tenantcron.outbox (type) VALUES ('x')",
    "lock executions": "LOCK TABLE tenantcron.execution",
    # Our tables in its own schema.
    "read its schedules' rows": "SELECT * FROM tenant_schedule",
    "change its schedules": "UPDATE tenant_schedule SET enabled = true",
    "change its schedules through a view": "UPDATE schedules SET enabled = true",
    "write its audit": "INSERT INTO audit_record (entity_type) VALUES ('schedule')",
    "count on the audit's sequence": "SELECT nextval('audit_record_id_seq')",
    "change the version": "UPDATE schema_version SET version_num = 'x'",
    "disable a trigger": "ALTER TABLE ledger DISABLE TRIGGER ALL",
    "drop a table": "DROP TABLE ledger",
    "create a table": "CREATE TABLE own (id int)",
    "create a function": "CREATE FUNCTION own() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    # Others.
    "read in public": "SELECT * FROM public.theirs",
    "write in public": "INSERT INTO public.theirs VALUES (2)",
    "read passwords": "SELECT rolpassword FROM pg_authid",
    "read passwords by the view": "SELECT passwd FROM pg_shadow",
    "read a file": "SELECT pg_read_file('postgresql.conf')",
    "list files": "SELECT pg_ls_dir('.')",
    "copy to a file": "COPY ledger TO '/tmp/ledger'",
    "run a program": "COPY ledger TO PROGRAM 'cat'",
    "export a large object": "SELECT lo_export(lo_create(0), '/tmp/lo')",
    "create a schema": "CREATE SCHEMA own",
    "load a library": "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE c AS 'x', 'x'",
    "create a replication slot": "SELECT pg_create_physical_replication_slot('x')",
    "change the database": "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database()"
    " || ' SET work_mem = 1000'; END $$",
    "switch triggers off": "SET session_replication_role = replica",
    # Other roles.
    "be another tenant": 'SET ROLE "{other}"',
    "be the owner": "SET ROLE postgres",
    "be the owner by a function": "SELECT set_config('role', 'postgres', false)",
    "be the owner from the start": "SET SESSION AUTHORIZATION postgres",
    "be another tenant from the start": 'SET SESSION AUTHORIZATION "{other}"',
    "be the owner from the start by a function": "SELECT set_config('session_authorization',"
    " 'postgres', false)",
    "grant itself another tenant": 'GRANT "{other}" TO "{acme}"',
    "grant itself the owner": 'GRANT postgres TO "{acme}"',
    "set another tenant's password": "ALTER ROLE \"{other}\" PASSWORD 'x'",
    "set another tenant's settings": "ALTER ROLE \"{other}\" SET work_mem = '1GB'",
    "be a superuser": 'ALTER ROLE "{acme}" SUPERUSER',
    "create roles": "CREATE ROLE own",
    "see past row-level security": 'ALTER ROLE "{acme}" BYPASSRLS',
    "default rights of the owner": "ALTER DEFAULT PRIVILEGES FOR ROLE postgres GRANT ALL ON TABLES"
    " TO PUBLIC",
    "stop the scheduler": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE usename = 'postgres' AND pid <> pg_backend_pid() AND datname = current_database()",
    "cancel the scheduler": "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
    " WHERE usename = 'postgres' AND pid <> pg_backend_pid() AND datname = current_database()",
}
CALLS = (
    "make_month('execution_past', '2020-01-01')",
    "drop_month('2020-01-01')",
    "drop_waiting_index()",
    "handler_role('night-owl')",
    "ensure_handler_role('night-owl', 'SCRAM-SHA-256$4096:x')",
    "drop_handler_role('night-owl')",
    "make_handler_role('own', 'SUPERUSER')",
    "missing_handler_rights(1, 1, 'public')",
)


@pytest.fixture
async def sessions(database: Database) -> AsyncIterator[HandlerSessions]:
    async with handler_sessions(database) as opened:
        async with database.transaction() as connection:
            await connection.exec_driver_sql(PUBLIC)
        await opened.login("night-owl")
        yield opened


async def named(sessions: HandlerSessions, statement: str) -> str:
    acme, other = await sessions.role("acme"), await sessions.role("night-owl")
    return statement.replace("{acme}", acme).replace("{other}", other)


async def outcome(sessions: HandlerSessions, statement: str) -> object:
    """Return the type of the error that a handler of acme gets, or its result."""
    try:
        return await sessions.run("acme", await named(sessions, statement))
    except DBAPIError as error:
        return type(error.orig)


async def test_a_handler_reaches_nothing_else(sessions: HandlerSessions) -> None:
    found = {name: await outcome(sessions, statement) for name, statement in REFUSED.items()}

    assert found == dict.fromkeys(REFUSED, InsufficientPrivilege)


async def test_a_handler_can_call_only_the_function_that_returns_the_actor(
    sessions: HandlerSessions,
) -> None:
    found = {call: await outcome(sessions, f"SELECT tenantcron.{call}") for call in CALLS}

    assert found == dict.fromkeys(CALLS, InsufficientPrivilege)
    callable_by = "SELECT proname FROM pg_proc WHERE pronamespace = 'tenantcron'::regnamespace"
    callable_by += " AND has_function_privilege(oid, 'EXECUTE')"
    assert await sessions.run("acme", callable_by) == [("acting",)]


async def test_a_plain_handler_has_the_same_rights(sessions: HandlerSessions) -> None:
    with pytest.raises(DBAPIError, match="permission denied"):
        await sessions.run_plain("acme", REFUSED["read another tenant"])

    assert await sessions.run_plain("acme", "SELECT note FROM ledger") == [("secret",)]


async def test_a_handler_works_with_the_tables_of_its_tenant(sessions: HandlerSessions) -> None:
    inserted = await sessions.run(
        "acme",
        "INSERT INTO ledger (note) VALUES ('new')",
        "UPDATE ledger SET note = 'newer' WHERE note = 'new'",
        "DELETE FROM ledger WHERE note = 'secret'",
        "SELECT note FROM ledger",
    )

    assert inserted == [("newer",)]
    assert await sessions.admin(f"SELECT note FROM {OTHER}.ledger") == [("secret",)]


async def test_outside_a_transaction_a_handler_reaches_nothing_else(
    sessions: HandlerSessions,
) -> None:
    for statement in ("ALTER SYSTEM SET work_mem = '1GB'", "CREATE DATABASE own"):
        with pytest.raises(DBAPIError) as caught:
            await sessions.run("acme", "COMMIT", statement)
        assert isinstance(caught.value.orig, InsufficientPrivilege)


async def test_resetting_the_role_changes_nothing(sessions: HandlerSessions) -> None:
    own = await sessions.role("acme")
    who = "SELECT session_user, current_user"

    for reset in ("RESET ROLE", "SET ROLE NONE", "SET SESSION AUTHORIZATION DEFAULT", "RESET ALL"):
        assert await sessions.run("acme", reset, who) == [(own, own)]


async def test_the_group_role_of_handlers_has_no_further_privileges(
    sessions: HandlerSessions,
) -> None:
    group = await sessions.role(None)

    with pytest.raises(DBAPIError, match="permission denied"):
        await sessions.run("acme", f"SET ROLE {group}", f"SELECT * FROM {OTHER}.ledger")
    with pytest.raises(DBAPIError, match="permission denied"):
        await sessions.run("acme", f"SET ROLE {group}", "SELECT * FROM tenant_acme.ledger")


async def test_statements_and_proofs_of_other_tenants_cannot_be_seen(
    sessions: HandlerSessions,
) -> None:
    own, other = await sessions.role("acme"), await sessions.role("night-owl")
    look = f"SELECT usename, query FROM pg_stat_activity WHERE usename IN ('{own}', '{other}')"
    async with sessions.of("night-owl"):
        rows = await sessions.run("acme", look)

    assert (other, "<insufficient privilege>") in rows
    assert (own, look) in rows


async def test_a_temporary_table_cannot_shadow_tables_of_our_functions(
    sessions: HandlerSessions,
) -> None:
    forged = await sessions.run(
        "acme",
        "CREATE TEMP TABLE execution_live AS SELECT 'admin' AS actor_id",
        "CREATE TEMP TABLE pg_database AS SELECT 1 AS oid, current_database() AS datname",
        "CREATE DOMAIN pg_temp.uuid AS text",
        "SET search_path TO pg_temp, pg_catalog",
        "SELECT changed_by, authenticated FROM tenantcron.acting()",
    )

    assert forged == [(await sessions.role("acme"), False)]


async def test_the_platform_can_grant_more_to_one_tenant_or_to_all(
    sessions: HandlerSessions,
) -> None:
    await sessions.admin(f"GRANT SELECT ON public.shared TO {await sessions.role(None)}")
    await sessions.login("acme")
    await sessions.admin(f'GRANT CREATE ON SCHEMA tenant_acme TO "{await sessions.role("acme")}"')

    assert await sessions.run("acme", "SELECT count(*) FROM public.shared") == [(0,)]
    assert await sessions.run("night-owl", "SELECT count(*) FROM public.shared") == [(0,)]
    await sessions.run("acme", "CREATE TABLE own (id int)", "INSERT INTO own VALUES (1)")
    assert await sessions.run("acme", "SELECT id FROM own") == [(1,)]


async def test_a_new_table_is_granted_before_the_next_attempt(
    sessions: HandlerSessions,
) -> None:
    insert = "INSERT INTO later DEFAULT VALUES RETURNING id"
    await sessions.run("acme", "SELECT 1")
    await sessions.admin("CREATE TABLE tenant_acme.later (id serial)")

    with pytest.raises(DBAPIError, match="permission denied"):
        await sessions.run("acme", insert)

    assert await sessions.run("acme", insert) == [(1,)]


async def test_a_privilege_that_the_platform_revoked_is_not_granted_again(
    sessions: HandlerSessions,
) -> None:
    await sessions.run("acme", "SELECT * FROM history")
    role = await sessions.role("acme")
    await sessions.admin(f"REVOKE INSERT, UPDATE, DELETE ON tenant_acme.history FROM {role}")

    for _ in range(3):
        with pytest.raises(DBAPIError) as refused:
            await sessions.run("acme", "INSERT INTO history (note) VALUES ('forged')")
        assert isinstance(refused.value.orig, InsufficientPrivilege)


@pytest.mark.parametrize("schema", ["tenantcron", "public", "pg_catalog"])
async def test_handlers_never_get_privileges_on_a_foreign_schema(
    sessions: HandlerSessions, schema: str
) -> None:
    await sessions.admin(
        "UPDATE tenantcron.tenant SET schema_name = :schema WHERE id = 'acme'", schema=schema
    )

    with pytest.raises(HandlerRoleError, match="belongs to no tenant alone"):
        await sessions.run("acme", "SELECT 1")


async def test_row_level_security_applies_to_handlers(
    sessions: HandlerSessions,
) -> None:
    await sessions.admin("ALTER TABLE tenant_acme.ledger ENABLE ROW LEVEL SECURITY")

    assert await sessions.run("acme", "SELECT note FROM ledger") == []
