"""Other sessions of the database: whether one of them waits, or has ended."""

import asyncio
from time import monotonic

import psycopg
from support.patience import PATIENCE

LOCK_WAITS = (
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


async def until_found(url: str, statement: str) -> None:
    """Wait until a statement returns a row."""
    await asyncio.to_thread(_ask, url, statement, found=True)


async def until_not_found(url: str, statement: str) -> None:
    """Wait until a statement returns no row."""
    await asyncio.to_thread(_ask, url, statement, found=False)


def _ask(url: str, statement: str, *, found: bool) -> None:
    """Poll continuously, because the database sends no notification about sessions."""
    patience = monotonic() + PATIENCE
    with psycopg.connect(url, autocommit=True) as connection:
        while (connection.execute(statement.encode()).fetchone() is not None) is not found:
            assert monotonic() < patience, "the condition never became true"
