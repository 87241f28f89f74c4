"""Rows of `api_token`, used by the API and the command `token`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from psycopg.errors import UniqueViolation
from sqlalchemy import RowMapping, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.api_tokens import NewToken, PresentedToken, StoredToken
from tenantcron.actor.grants import Grant, Role
from tenantcron.core.names import TenantId
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.api_usage import ApiUsage, usage_of
from tenantcron.store.schema.tables import api_token
from tenantcron.store.steps.statements import statement

_row = api_token.c
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token for display, without its secret."""

    id: str
    name: str
    grant: Grant
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class ApiTokenUse:
    """The stored token of a request, and how often it was used."""

    token: StoredToken
    now: datetime
    # None: the request is not counted, because its token is invalid.
    usage: ApiUsage | None
    # The minute in which it was counted.
    window: datetime | None


@dataclass(frozen=True, slots=True)
class Unused:
    """Requests that were counted in a minute, but not made."""

    window: datetime | None = None
    requests: int = 0


async def request(
    database: Database, presented: PresentedToken, requests: int = 1, unused: Unused | None = None
) -> ApiTokenUse | None:
    """Find the token of some requests and count them; None if there is no such token."""
    returned = unused or Unused()
    parameters = {
        "id": presented.id,
        "digest": presented.digest,
        "requests": requests,
        "window": returned.window,
        "unused": returned.requests,
    }
    match await database.fetch(statement("token_request"), parameters):
        case [(str(token), str(name), bytes(digest), str(role), tenant, *rest)]:
            expires_at, revoked_at, now, *counted, window = rest
            grant = _grant(role, tenant if isinstance(tenant, str) else None)
            stored = StoredToken(token, name, digest, grant, _time(expires_at), _past(revoked_at))
            return ApiTokenUse(stored, _time(now), usage_of(*counted), _past(window))
    return None


def _time(value: object) -> datetime:
    """Convert microseconds since 1970; a float would lose precision."""
    if not isinstance(value, int):
        raise TypeError("the columns of a token have changed")
    return _EPOCH + timedelta(microseconds=value)


def _past(value: object) -> datetime | None:
    return None if value is None else _time(value)


async def add(  # noqa: PLR0913 -- the columns of a token
    connection: AsyncConnection,
    new: NewToken,
    *,
    name: str,
    grant: Grant,
    created_by: str,
    lives: timedelta,
) -> TokenRow | None:
    """Insert a token; None if another active token has the name."""
    values = {
        "id": new.id,
        "name": name,
        "digest": new.digest,
        "role": grant.role.value,
        "tenant_id": grant.tenant,
        "created_by": created_by,
        "created_at": func.now(),
        "expires_at": func.now() + lives,
    }
    try:
        async with connection.begin_nested():
            await connection.execute(insert(api_token).values(values))
    except IntegrityError as error:
        if not isinstance(error.orig, UniqueViolation):
            raise
        return None
    return await _find(connection, new.id)


async def list_all(connection: AsyncConnection) -> Sequence[TokenRow]:
    """Return all tokens, the newest first."""
    rows = await connection.execute(_SHOWN.order_by(_row.created_at.desc(), _row.id))
    return [_read(row._mapping) for row in rows]


async def revoke(connection: AsyncConnection, token_id: str) -> TokenRow | None:
    """Revoke a token; None if it does not exist. A revoked token stays unchanged."""
    this = update(api_token).where(_row.id == token_id, _row.revoked_at.is_(None))
    await connection.execute(this.values(revoked_at=func.now()))
    return await _find(connection, token_id)


_SHOWN = select(
    _row.id,
    _row.name,
    _row.role,
    _row.tenant_id,
    _row.created_by,
    _row.created_at,
    _row.expires_at,
    _row.revoked_at,
)


async def _find(connection: AsyncConnection, token_id: str) -> TokenRow | None:
    row = (await connection.execute(_SHOWN.where(_row.id == token_id))).one_or_none()
    return None if row is None else _read(row._mapping)


def _read(row: RowMapping) -> TokenRow:
    values = dict(row)
    grant = _grant(values.pop("role"), values.pop("tenant_id"))
    return TokenRow(grant=grant, **values)


def _grant(role: str, tenant_id: str | None) -> Grant:
    return Grant(Role(role), None if tenant_id is None else TenantId(tenant_id))
