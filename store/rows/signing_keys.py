"""Rows of `signing_key`: the keys, encrypted with a master key, and when they are in use.

The public key is not a column: it is computed from the sealed private key. So a user who can write
to this table but has no master key cannot add a key that verifiers would trust.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.sealing import Sealed
from tenantcron.store.connection.locks import Lock, take_lock
from tenantcron.store.schema.tables import signing_key


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key; a retired key has no private key."""

    kid: str
    algorithm: str
    sealed: Sealed | None
    created_at: datetime
    active_from: datetime
    retired_at: datetime | None


async def lock(connection: AsyncConnection) -> None:
    """Lock the keys against changes until the transaction ends."""
    await take_lock(connection, Lock.SIGNING_KEYS)


async def list_all(connection: AsyncConnection) -> list[KeyRow]:
    """Return all keys, in the order of their activation."""
    order = (signing_key.c.active_from, signing_key.c.kid)
    return [_read(row) for row in await connection.execute(select(signing_key).order_by(*order))]


async def find(connection: AsyncConnection, kid: str) -> KeyRow | None:
    """Return a key."""
    statement = select(signing_key).where(signing_key.c.kid == kid)
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _read(row)


async def add(connection: AsyncConnection, key: KeyRow) -> None:
    """Insert a key."""
    values = {
        "kid": key.kid,
        "algorithm": key.algorithm,
        "created_at": key.created_at,
        "active_from": key.active_from,
        "retired_at": key.retired_at,
        **_sealed(key.sealed),
    }
    await connection.execute(insert(signing_key).values(values))


async def retire(connection: AsyncConnection, kid: str, at: datetime) -> None:
    """Retire a key permanently and delete its private key."""
    values = {"retired_at": at, **_sealed(None)}
    await connection.execute(update(signing_key).where(signing_key.c.kid == kid).values(values))


async def reseal(connection: AsyncConnection, kid: str, sealed: Sealed) -> None:
    """Replace the sealed private key by one that is sealed with another master key."""
    statement = update(signing_key).where(signing_key.c.kid == kid)
    await connection.execute(statement.values(_sealed(sealed)))


def _sealed(sealed: Sealed | None) -> dict[str, bytes | str | None]:
    if sealed is None:
        return {"sealed": None, "sealed_by": None}
    return {"sealed": sealed.data, "sealed_by": sealed.sealed_by}


def _read(row: Row[tuple[object, ...]]) -> KeyRow:
    values = row._mapping
    sealed = Sealed(values["sealed"], values["sealed_by"]) if values["sealed"] else None
    return KeyRow(
        kid=values["kid"],
        algorithm=values["algorithm"],
        sealed=sealed,
        created_at=values["created_at"],
        active_from=values["active_from"],
        retired_at=values["retired_at"],
    )
