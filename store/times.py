"""The database's time: the only clock that all replicas share."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection


async def database_time(connection: AsyncConnection) -> datetime:
    """Return the time by the database's clock, as of the start of the transaction."""
    now: datetime = (await connection.execute(select(func.now()))).scalar_one()
    return now
