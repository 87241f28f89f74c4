"""Planted functions and operators do not affect an apply."""

from support.fleet import Fleet, names, numbered, query

from tenantcron.reconciler.outcome import Status

# The built-ins that statements and triggers of an apply call without a schema.
PLANTED = """
CREATE FUNCTION {0}.stolen() RETURNS void LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE FUNCTION {0}.now() RETURNS timestamptz LANGUAGE sql
    AS 'SELECT {0}.stolen(); SELECT ''epoch''::timestamptz';
CREATE FUNCTION {0}.gen_random_uuid() RETURNS uuid LANGUAGE sql
    AS 'SELECT {0}.stolen(); SELECT NULL::uuid';
CREATE FUNCTION {0}.pg_notify(varchar, varchar) RETURNS void LANGUAGE sql
    AS 'SELECT {0}.stolen()';
CREATE FUNCTION {0}.same(varchar, varchar) RETURNS boolean LANGUAGE sql
    AS 'SELECT {0}.stolen(); SELECT true';
CREATE OPERATOR {0}.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = {0}.same);
"""


async def test_planted_functions_and_operators_do_not_run(fleet: Fleet, database_url: str) -> None:
    fleet.write("acme", numbered(3))
    await fleet.apply()
    for schema in ("public", "tenant_acme"):
        query(database_url, PLANTED, schema)
    # The worst case: the search path of every role has the planted ones first.
    (name,) = query(database_url, "SELECT current_database() AS name")
    query(database_url, "ALTER DATABASE {} SET search_path = tenant_acme, public", name["name"])
    await fleet.database.engine.dispose()

    fleet.write("acme", {"s001": "cron: '0 4 * * *'", "new": "cron: '0 4 * * *'"})
    (applied,) = await fleet.apply()

    assert applied.status is Status.APPLIED
    assert names(database_url, "acme") == ["new", "s001"]
