"""Replacing connections whose server process has grown."""

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

_USES = "tenantcron_uses"


def replace_after_uses(connection: AsyncConnection, most: int) -> None:
    """Count a use of the connection; replace it after `most` uses."""
    info = _open(connection).info
    info[_USES] = info.get(_USES, 0) + 1
    if info[_USES] >= most:
        replace_connection(connection)


def replace_connection(connection: AsyncConnection) -> None:
    """Replace the connection by a new one after its transaction.

    For transactions that read very many tables: a backend caches the metadata of each.
    """
    _open(connection).connection.invalidate(soft=True)


def _open(connection: AsyncConnection) -> Connection:
    if connection.sync_connection is None:
        raise RuntimeError("the connection is not open")
    return connection.sync_connection
