"""The server's side of a connection, where it matters."""

from sqlalchemy.ext.asyncio import AsyncConnection

# Few enough that looking through their plans costs little, and that a new connection for each
# hundred tenants costs less than one percent of creating them.
TENANTS_A_BACKEND = 100
_WORN = "tenantcron_tenants_written"


def wear_out(connection: AsyncConnection) -> None:
    """Count a tenant that the connection has written to; replace it after a hundred of them.

    A backend compiles the triggers of every tenant's table and keeps their plans. Whenever any
    session creates a table, every backend looks through all plans that it keeps: without new
    backends, creating the 8,000th tenant takes five times as long as the first.
    """
    if connection.sync_connection is None:
        raise RuntimeError("the connection is not open")
    info = connection.sync_connection.info
    info[_WORN] = info.get(_WORN, 0) + 1
    if info[_WORN] >= TENANTS_A_BACKEND:
        give_up(connection)


def give_up(connection: AsyncConnection) -> None:
    """Have the connection replaced by a new one after its transaction, before its next use.

    For transactions that have read very many tables: a backend keeps what it knows of each.
    """
    if connection.sync_connection is None:
        raise RuntimeError("the connection is not open")
    connection.sync_connection.connection.invalidate(soft=True)
