"""Rows of `idempotency_key`: responses of writes, so that a repeated write is done once.

The row is inserted first and completed last, in the transaction that does the work. A concurrent
duplicate waits at the insert until that transaction ends: after a commit it finds the response,
after a rollback it does the work itself. So a row without a response is never visible.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.schema.tables import idempotency_key

KEPT_FOR = timedelta(hours=24)
LONGEST_KEY = 255
_row = idempotency_key.c


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The response to a request, and the hash of the request."""

    request_hash: str
    status: int
    answer: str


async def take(
    connection: AsyncConnection, caller: str, key: str, request_hash: str
) -> KeptAnswer | None:
    """Reserve a key for this transaction; return the response if the work was done before."""
    this = (_row.caller == caller, _row.key == key)
    too_old = _row.created_at < func.now() - KEPT_FOR
    await connection.execute(delete(idempotency_key).where(*this, too_old))
    values = {"caller": caller, "key": key, "request_hash": request_hash}
    new = insert(idempotency_key).values(values).on_conflict_do_nothing().returning(_row.key)
    if (await connection.execute(new)).one_or_none() is not None:
        return None
    found = select(_row.request_hash, _row.status, _row.answer).where(*this)
    return KeptAnswer(*(await connection.execute(found)).one())


async def keep(
    connection: AsyncConnection, caller: str, key: str, status: int, answer: str
) -> None:
    """Store the response in the transaction of the work."""
    this = update(idempotency_key).where(_row.caller == caller, _row.key == key)
    await connection.execute(this.values(status=status, answer=answer))


async def forget_old(connection: AsyncConnection) -> int:
    """Delete expired keys; return how many."""
    too_old = _row.created_at < func.now() - KEPT_FOR
    return (await connection.execute(delete(idempotency_key).where(too_old))).rowcount
