"""The database roles of handlers: one login for each tenant, made when it is first needed.

A role's name and its password follow from what the database has, so all replicas agree on both
without a word. The server only ever sees the password's SCRAM verifier. The rights of the roles are
the business of `tenantcron.ensure_handler_role` (docs/decisions/0033).
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
# Of this installation: the name goes on with the tenant.
_TENANTS = text(
    "SELECT substr(r.rolname, length(g.name) + 2) FROM pg_roles AS r,"
    " (SELECT tenantcron.handler_role() AS name) AS g"
    " WHERE starts_with(r.rolname, g.name || '_') ORDER BY 1"
)
_NAME = text("SELECT tenantcron.handler_role(:tenant)")
_FIND = text("SELECT rolname FROM pg_roles WHERE rolname = tenantcron.handler_role(:tenant)")
INSTEAD = (
    'Or set handler_role = "scheduler": handlers may then do everything that the scheduler may'
)


class HandlerRoleError(DatabaseError):
    """A tenant's handlers have no role, or cannot log in as it."""


@dataclass(frozen=True, slots=True)
class Login:
    """What a handler's connection logs in with."""

    user: str
    password: str = field(repr=False)


class KeptRole(NamedTuple):
    """A role that could not be dropped."""

    name: str
    reason: str


async def ensure(connection: AsyncConnection, tenant: TenantId, *, set_password: bool) -> Login:
    """Make sure that a tenant's role is there and has its rights; return how to log in as it.

    A new role gets its password in any case. A HandlerRoleError says what to do about it.
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
                "see pg_locks, or try again"
            ) from error
        raise
    return login


async def find(connection: AsyncConnection, tenant: TenantId) -> str | None:
    """Return the name of a tenant's role if it is there."""
    name: str | None = await connection.scalar(_FIND, {"tenant": tenant})
    return name


async def tenants_with_roles(connection: AsyncConnection) -> list[str]:
    """Return the ids of tenants whose handlers have a role, also of those that are gone."""
    return list(await connection.scalars(_TENANTS))


async def drop(connection: AsyncConnection, tenant: str | None) -> KeptRole | None:
    """Drop a tenant's role, or with None the one that all of them are in; say if it is kept."""
    reason = await connection.scalar(_DROP, {"tenant": tenant})
    if reason is None:
        return None
    return KeptRole(await connection.scalar(_NAME, {"tenant": tenant}), reason)


async def _ensured(connection: AsyncConnection, tenant: TenantId, verifier: str | None) -> bool:
    return bool(await connection.scalar(_ENSURE, {"tenant": tenant, "verifier": verifier}))


def _verifier(login: Login) -> str:
    """Return what the server stores in place of the password (RFC 5803).

    One iteration: more of them slow down guessing, and 256 random bits cannot be guessed. They
    would also slow down each login, by three milliseconds in which the event loop stands still.
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
