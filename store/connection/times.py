"""The database's time: the only clock that all replicas share."""

from datetime import datetime

from sqlalchemy import DateTime, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

# The database's clock, unless a time is given (`at`). It is STABLE, so an index can be used.
NOW = func.coalesce(bindparam("at", type_=DateTime(timezone=True)), func.statement_timestamp())


async def database_time(connection: AsyncConnection) -> datetime:
    """Return the time by the database's clock, as of the start of the transaction."""
    now: datetime = (await connection.execute(select(func.now()))).scalar_one()
    return now


async def moment(connection: AsyncConnection, at: datetime | None) -> datetime:
    """Return the time that a step uses: the given one, else the database's time."""
    found: datetime = (await connection.execute(select(NOW), {"at": at})).scalar_one()
    return found
