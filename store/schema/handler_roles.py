"""The database roles of handlers: one login per tenant, created on first use.

The name and the password of a role are derived from data in the database, so all replicas agree on
both without communication. The server only receives the SCRAM verifier of the password.
`tenantcron.ensure_handler_role` grants the privileges (docs/decisions/0033).
"""

import hmac
from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac, sha256
from secrets import token_bytes
from typing import NamedTuple

import psycopg
from psycopg.errors import InsufficientPrivilege, InvalidParameterValue, LockNotAvailable
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import DatabaseError

_LOGIN = text("SELECT tenantcron.handler_role(:tenant), secret FROM tenantcron.handler_login")
_ENSURE = text("SELECT tenantcron.ensure_handler_role(:tenant, :verifier)")
_DROP = text("SELECT tenantcron.drop_handler_role(:tenant)")
# Only roles of this installation: the prefix is followed by the tenant.
_TENANTS = text(
    "SELECT substr(r.rolname, length(g.name) + 2) FROM pg_roles AS r,"
    " (SELECT tenantcron.handler_role() AS name) AS g"
    " WHERE starts_with(r.rolname, g.name || '_') ORDER BY 1"
)
_NAME = text("SELECT tenantcron.handler_role(:tenant)")
_FIND = text("SELECT rolname FROM pg_roles WHERE rolname = tenantcron.handler_role(:tenant)")
INSTEAD = 'Or set handler_role = "scheduler": handlers then have all privileges of the scheduler'


class HandlerRoleError(DatabaseError):
    """A tenant's handlers have no role, or cannot log in as it."""


@dataclass(frozen=True, slots=True)
class Login:
    """The login of a handler's connection."""

    user: str
    password: str = field(repr=False)


class KeptRole(NamedTuple):
    """A role that could not be dropped."""

    name: str
    reason: str


async def ensure(connection: AsyncConnection, tenant: TenantId, *, set_password: bool) -> Login:
    """Ensure that a tenant's role exists and has its privileges; return its login.

    A new role gets its password in any case. Raises a HandlerRoleError if that is not possible.
    """
    try:
        user, secret = (await connection.execute(_LOGIN, {"tenant": tenant})).one()
        login = Login(user, hmac.digest(secret.encode(), user.encode(), "sha256").hex())
        is_new = not set_password and await _ensured(connection, tenant, None)
        if set_password or is_new:
            await _ensured(connection, tenant, _verifier(login))
    except DBAPIError as error:
        if isinstance(error.orig, InsufficientPrivilege | InvalidParameterValue):
            raise _explained(tenant, error.orig) from error
        if isinstance(error.orig, LockNotAvailable):
            raise HandlerRoleError(
                f"the database role for the handlers of `{tenant}` is locked by another session: "
                "see pg_locks, or retry"
            ) from error
        raise
    return login


async def find(connection: AsyncConnection, tenant: TenantId) -> str | None:
    """Return the name of a tenant's role if it exists."""
    name: str | None = await connection.scalar(_FIND, {"tenant": tenant})
    return name


async def tenants_with_roles(connection: AsyncConnection) -> list[str]:
    """Return the ids of tenants whose handlers have a role, including removed tenants."""
    return list(await connection.scalars(_TENANTS))


async def drop(connection: AsyncConnection, tenant: str | None) -> KeptRole | None:
    """Drop a tenant's role, or with None the common group role; return it if it is kept."""
    reason = await connection.scalar(_DROP, {"tenant": tenant})
    if reason is None:
        return None
    return KeptRole(await connection.scalar(_NAME, {"tenant": tenant}), reason)


async def _ensured(connection: AsyncConnection, tenant: TenantId, verifier: str | None) -> bool:
    return bool(await connection.scalar(_ENSURE, {"tenant": tenant, "verifier": verifier}))


def _verifier(login: Login) -> str:
    """Return the verifier that the server stores instead of the password (RFC 5803).

    One iteration is enough: more of them slow down brute force, which is impossible with 256 random
    bits. They would also block the event loop for three milliseconds per login.
    """
    salt = token_bytes(16)
    salted = pbkdf2_hmac("sha256", login.password.encode(), salt, 1)
    stored = sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    shown = (b64encode(part).decode() for part in (salt, stored, server))
    return "SCRAM-SHA-256$1:{}${}:{}".format(*shown)


def _explained(tenant: TenantId, cause: psycopg.Error) -> HandlerRoleError:
    hint = cause.diag.message_hint or "Run deploy/sql/grants.sql after each migrate"
    return HandlerRoleError(
        f"there is no database role for the handlers of `{tenant}`: {first_line(cause)}. "
        f"{hint}. {INSTEAD}"
    )
