"""Attribution in your own tables: columns with defaults from the context, settings for triggers.

`Attributed` covers statements that SQLAlchemy compiles: ORM flushes, and `insert()` and `update()`
of Core and ORM. It reads the context when the statement is sent, so flush inside the `with` block.
It does not cover textual SQL, deletes, and the `SET` of an upsert. For those use `set_actor`: it
sets the actor of the transaction, which a trigger can read.
"""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, Executable, String, func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Mapped, Session, mapped_column

from tenantcron.actor.attribution import attribution
from tenantcron.actor.context import current_correlation_id
from tenantcron.actor.model import LONGEST_ID

# After the table's own columns.
_LAST: Final = 1_000


def _changed_by() -> str:
    return attribution().changed_by


class Attributed:
    """A mixin for declarative classes: the last actor of a row, and the correlation id."""

    changed_by: Mapped[str] = mapped_column(
        String(LONGEST_ID), insert_default=_changed_by, onupdate=_changed_by, sort_order=_LAST
    )
    correlation_id: Mapped[UUID | None] = mapped_column(
        insert_default=current_correlation_id, onupdate=current_correlation_id, sort_order=_LAST
    )


def set_actor(connection: Connection | Session) -> None:
    """Set the actor of the transaction: `current_setting('tenantcron.actor', true)` in SQL."""
    connection.execute(_settings())


async def set_actor_async(connection: AsyncConnection | AsyncSession) -> None:
    """Set the actor of the transaction of an async connection."""
    await connection.execute(_settings())


def _settings() -> Executable:
    # True: until the end of the transaction, so that a pooled connection does not keep it.
    return select(
        *(func.set_config(name, value, True) for name, value in attribution().settings().items())
    )
