"""The contents of a schema that tenantcron shares with a platform, for comparison."""

import psycopg

_OBJECTS = """
SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
FROM pg_depend AS d
WHERE d.refclassid = 'pg_namespace'::regclass
    AND d.refobjid = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
UNION ALL
SELECT format('grant on %%s to %%s: %%s', n.nspname, a.grantee::regrole, a.privilege_type)
FROM pg_namespace AS n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS a
WHERE n.nspname = %(schema)s
UNION ALL
SELECT format('grant on %%s to %%s: %%s', c.oid::regclass, a.grantee::regrole, a.privilege_type)
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS a
WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'v')
ORDER BY 1
"""


def everything_in(url: str, schema: str) -> list[str]:
    """Describe the objects and grants of a schema."""
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(_OBJECTS, {"schema": schema})]
