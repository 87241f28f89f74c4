"""The server's side of a connection, where it matters."""

from sqlalchemy.ext.asyncio import AsyncConnection


def give_up(connection: AsyncConnection) -> None:
    """Have the connection replaced by a new one after its transaction, before its next use.

    For transactions that have read very many tables: a backend keeps what it knows of each.
    """
    if connection.sync_connection is None:
        raise RuntimeError("the connection is not open")
    connection.sync_connection.connection.invalidate(soft=True)
