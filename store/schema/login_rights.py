"""Privileges of the login that neither schedulers nor the API need."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# Of the login, not of its current role: any code in the process can reset that.
_RIGHTS = text(
    "SELECT r.rolname, r.rolsuper, r.rolbypassrls, pg_has_role(r.oid, c.relowner, 'MEMBER')"
    " FROM pg_roles AS r, pg_class AS c"
    " WHERE r.rolname = session_user AND c.oid = 'tenantcron.audit_record'::regclass"
)
_RIGHTS_IN_WORDS = ("superuser", "bypasses row-level security", "owns the tables")


async def excess_rights(connection: AsyncConnection) -> tuple[str, list[str]]:
    """Return the name of the login and its unnecessary privileges."""
    name, is_superuser, *others = (await connection.execute(_RIGHTS)).one()
    has = (True, False, False) if is_superuser else (False, *others)
    return name, [right for right, is_so in zip(_RIGHTS_IN_WORDS, has, strict=True) if is_so]
