"""Other sessions of the database: whether one of them waits, or has gone."""

import asyncio
from time import monotonic

import psycopg
from support.patience import PATIENCE

SOMEBODY_WAITS = (
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


async def until_found(url: str, statement: str) -> None:
    """Wait until a statement finds something."""
    await asyncio.to_thread(_ask, url, statement, found=True)


async def until_not_found(url: str, statement: str) -> None:
    """Wait until a statement finds nothing any more."""
    await asyncio.to_thread(_ask, url, statement, found=False)


def _ask(url: str, statement: str, *, found: bool) -> None:
    """Ask again and again, at the pace of the answers: of sessions the database tells nobody."""
    patience = monotonic() + PATIENCE
    with psycopg.connect(url, autocommit=True) as connection:
        while (connection.execute(statement.encode()).fetchone() is not None) is not found:
            assert monotonic() < patience, "it never came"
