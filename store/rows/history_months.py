"""The monthly partitions of `execution_past` and `execution_attempt`.

They are created in advance and dropped as a table, so that old history needs no DELETE and causes
no index bloat. A partition is created as a separate table and then attached, which needs no strong
lock. Dropping one briefly locks the parent; if the lock is not available soon, it is retried later.
One replica at a time does either (the lock HISTORY).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.locks import Lock, set_lock_timeout, take_lock
from tenantcron.store.connection.scripts import run_script

TABLES = ("execution_past", "execution_attempt")
# How many months after the current one are created in advance.
MONTHS_AHEAD = 2
_PATIENCE = "2s"
# Partitions with other names belong to the operator.
_NAME = re.compile(r"execution_(?:past|attempt)_([0-9]{4})_(0[1-9]|1[0-2])")

# SECURITY DEFINER: a scheduler needs no privilege to create or drop tables.
_MAKE = text("SELECT tenantcron.make_month(:table, :first_day)")
_DROP = text("SELECT tenantcron.drop_month(:first_day)")
# Attached partitions: a detached table of this name receives no rows.
_EXISTING = text(
    "SELECT p.relname, c.relname FROM pg_catalog.pg_inherits AS i"
    " JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid"
    " JOIN pg_catalog.pg_class AS p ON p.oid = i.inhparent"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = p.relnamespace"
    " WHERE n.nspname = 'tenantcron' AND p.relkind = 'p'"
)


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A month in UTC."""

    year: int
    month: int

    @property
    def start(self) -> datetime:
        """The start of the month."""
        return datetime(self.year, self.month, 1, tzinfo=UTC)

    @property
    def following(self) -> "Month":
        """The next month."""
        years, month = divmod(self.month, 12)
        return Month(self.year + years, month + 1)

    def __str__(self) -> str:
        return f"{self.year:04}_{self.month:02}"


def month_of(moment: datetime) -> Month:
    """Return the month of a time."""
    utc = moment.astimezone(UTC)
    return Month(utc.year, utc.month)


def months_kept(now: datetime, retention: timedelta) -> Iterator[Month]:
    """Yield the months of executions: the retained history, the current month, and some ahead."""
    month, last = month_of(now - retention), month_of(now)
    for _ in range(MONTHS_AHEAD):
        last = last.following
    while month <= last:
        yield month
        month = month.following


async def prepare(connection: AsyncConnection, now: datetime, retention: timedelta) -> list[Month]:
    """Create missing months; usually none is missing, which takes one query."""
    months = list(months_kept(now, retention))
    if not _missing(months, await _existing(connection)):
        return []
    await take_lock(connection, Lock.HISTORY)
    await set_lock_timeout(connection, _PATIENCE)
    missing = _missing(months, await _existing(connection))
    for table, month in missing:
        await connection.execute(_MAKE, {"table": table, "first_day": month.start.date()})
    return sorted({month for _, month in missing})


async def drop_old(connection: AsyncConnection, now: datetime, retention: timedelta) -> list[Month]:
    """Drop months older than the retention, unless they have unfinished executions.

    If a lock is not available soon, the database raises an error, and nothing is dropped.
    """
    await take_lock(connection, Lock.HISTORY)
    await set_lock_timeout(connection, _PATIENCE)
    oldest = month_of(now - retention)
    old = sorted(
        month
        for table, month in await _existing(connection)
        if table == "execution_past" and month < oldest
    )
    if not await _finished(connection, old):
        return []
    # A retry moves an execution out of its month, which must exist when it ends. So no retry may be
    # in progress during the second check.
    await connection.run_sync(run_script, "LOCK TABLE ONLY tenantcron.execution_past")
    finished = await _finished(connection, old)
    for month in finished:
        await connection.execute(_DROP, {"first_day": month.start.date()})
    return finished


async def months_missing(connection: AsyncConnection, months: Sequence[Month]) -> list[Month]:
    """Return the months without partitions."""
    return sorted({month for _, month in _missing(months, await _existing(connection))})


def _missing(months: Sequence[Month], existing: set[tuple[str, Month]]) -> list[tuple[str, Month]]:
    pairs = [(table, month) for table in TABLES for month in months]
    return [pair for pair in pairs if pair not in existing]


async def _existing(connection: AsyncConnection) -> set[tuple[str, Month]]:
    rows = await connection.execute(_EXISTING)
    found = ((parent, _NAME.fullmatch(name)) for parent, name in rows if parent in TABLES)
    return {(parent, Month(int(name[1]), int(name[2]))) for parent, name in found if name}


async def _finished(connection: AsyncConnection, months: list[Month]) -> list[Month]:
    return [month for month in months if not await _is_unfinished(connection, month)]


async def _is_unfinished(connection: AsyncConnection, month: Month) -> bool:
    statement = text(
        "SELECT EXISTS (SELECT FROM tenantcron.execution"
        " WHERE state IN ('PENDING', 'RUNNING', 'RETRYING', 'FAILED')"
        " AND scheduled_for >= :start AND scheduled_for < :end)"
    )
    bounds = {"start": month.start, "end": month.following.start}
    return bool(await connection.scalar(statement, bounds))
