"""Rights of the login that neither schedulers nor the API need."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

# Of the login, not of a role that it has taken on: whatever runs in the process can reset that.
_RIGHTS = text(
    "SELECT r.rolname, r.rolsuper, r.rolbypassrls, pg_has_role(r.oid, c.relowner, 'MEMBER')"
    " FROM pg_roles AS r, pg_class AS c"
    " WHERE r.rolname = session_user AND c.oid = 'tenantcron.audit_record'::regclass"
)
_WORDS = ("superuser", "bypasses row-level security", "owns the tables")


async def excess_rights(connection: AsyncConnection) -> tuple[str, list[str]]:
    """Return the name of the login, and which rights it has without need."""
    name, is_superuser, *others = (await connection.execute(_RIGHTS)).one()
    has = (True, False, False) if is_superuser else (False, *others)
    return name, [word for word, is_so in zip(_WORDS, has, strict=True) if is_so]
