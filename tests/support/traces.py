# ruff: noqa: S608 -- statements are built from constants of this file
"""All contents of a database, from catalogs and tables, for comparison after a removal."""

import psycopg
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

# Default rights are written out like granted rights: revoking a grant leaves the default written
# out.
_RIGHTS = (
    "(SELECT string_agg(a::text, ',' ORDER BY a::text)"
    " FROM aclexplode(coalesce({acl}, acldefault('{kind}', {owner}))) AS a)"
)
_OWN = "NOT LIKE 'pg\\_%' AND {} <> 'information_schema'"
_IN_SCHEMA = f"JOIN pg_namespace AS n ON n.oid = {{}} WHERE n.nspname {_OWN.format('n.nspname')}"
_CATALOGS = {
    "schemas": "SELECT nspname, nspowner::regrole, "
    + _RIGHTS.format(acl="nspacl", kind="n", owner="nspowner")
    + f" FROM pg_namespace WHERE nspname {_OWN.format('nspname')}",
    "relations": "SELECT n.nspname, relname, relkind, relowner::regrole, relrowsecurity, "
    + _RIGHTS.format(acl="relacl", kind="r", owner="relowner")
    + f" FROM pg_class {_IN_SCHEMA.format('relnamespace')}",
    "columns": "SELECT n.nspname, relname, attname, attacl::text FROM pg_class"
    " JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 "
    + _IN_SCHEMA.format("relnamespace"),
    "functions": "SELECT n.nspname, proname, proowner::regrole, prosrc, "
    + _RIGHTS.format(acl="proacl", kind="f", owner="proowner")
    + f" FROM pg_proc {_IN_SCHEMA.format('pronamespace')}",
    "types": f"SELECT n.nspname, typname FROM pg_type {_IN_SCHEMA.format('typnamespace')}",
    "triggers": "SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE NOT tgisinternal",
    "policies": "SELECT polrelid::regclass, polname FROM pg_policy",
    "roles": "SELECT rolname, rolsuper, rolcreaterole, rolcanlogin FROM pg_roles",
    "members": "SELECT roleid::regrole, member::regrole FROM pg_auth_members",
    "default rights": "SELECT defaclrole::regrole, defaclnamespace, defaclobjtype, defaclacl::text"
    " FROM pg_default_acl",
    "settings": "SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting",
    "extensions": "SELECT extname FROM pg_extension",
    "event triggers": "SELECT evtname FROM pg_event_trigger",
    "databases": "SELECT datname, "
    + _RIGHTS.format(acl="datacl", kind="d", owner="datdba")
    + " FROM pg_database",
}
_TABLES = (
    "SELECT n.nspname, relname FROM pg_class "
    + _IN_SCHEMA.format("relnamespace")
    + " AND relkind = 'r' ORDER BY 1, 2"
)


def everything(url: str) -> dict[str, list[str]]:
    """Return the catalogs and the rows of all tables, each sorted."""
    with psycopg.connect(url, row_factory=tuple_row) as connection:
        found = {
            name: sorted(map(str, connection.execute(statement.encode())))
            for name, statement in _CATALOGS.items()
        }
        for schema, table in connection.execute(_TABLES.encode()).fetchall():
            rows = connection.execute(SQL("TABLE {}").format(Identifier(schema, table)))
            found[f"rows of {schema}.{table}"] = sorted(map(str, rows))
        return found
