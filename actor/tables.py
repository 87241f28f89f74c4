"""Attribution in tables of your own: columns that fill themselves, and settings for triggers.

`Attributed` covers what SQLAlchemy compiles: flushes of the ORM, and `insert()` and `update()` of
Core and ORM. It reads the context when the statement is sent, so flush inside the `with` block.
It cannot see SQL text, deletes, and the `SET` of an upsert. `set_actor` covers those: it tells the
transaction who acts, and a trigger of the database reads it.
"""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, Executable, String, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Mapped, Session, mapped_column

from tenantcron.actor.attribution import attribution
from tenantcron.actor.context import current_correlation_id
from tenantcron.actor.model import LONGEST_ID

# Behind the columns of the table itself.
_LAST: Final = 1_000


def _changed_by() -> str:
    return attribution().changed_by


class Attributed:
    """A mixin for declarative classes: who last changed a row, and as part of what."""

    changed_by: Mapped[str] = mapped_column(
        String(LONGEST_ID), insert_default=_changed_by, onupdate=_changed_by, sort_order=_LAST
    )
    correlation_id: Mapped[UUID | None] = mapped_column(
        insert_default=current_correlation_id, onupdate=current_correlation_id, sort_order=_LAST
    )


def set_actor(connection: Connection | Session) -> None:
    """Tell the open transaction who acts: `current_setting('tenantcron.actor', true)` in SQL."""
    connection.execute(_settings())


async def set_actor_async(connection: AsyncConnection | AsyncSession) -> None:
    """Do what `set_actor` does, on an async connection."""
    await connection.execute(_settings())


def _settings() -> Executable:
    # True: until the end of the transaction, so that a pooled connection keeps nothing of it.
    return select(
        *(func.set_config(name, value, True) for name, value in attribution().settings().items())
    )
