"""How it goes, as the database sees it: numbers of the whole cluster, read in one statement."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.steps.statements import statement

# Whoever watches must not be what slows it down.
_LONGEST = "SET LOCAL statement_timeout TO '2s'"


@dataclass(frozen=True, slots=True)
class Measured:
    """The state of the whole; the fields are the columns of the statement."""

    running: int
    # None: the row of limits is missing, so nothing starts.
    running_limit: int | None
    tenants_at_limit: int
    priorities: list[int]
    waiting: list[int]
    # Seconds; None: nothing waits, or there is no schedule.
    longest_wait: float | None
    cursor_lag: float | None
    overdue: int
    set_aside: int
    auto_paused: int
    tenants_not_followed: int
    replicas: int
    # Those that are on, by name: seconds that the oldest event waits, and how many were dropped.
    webhooks: list[str]
    webhook_lags: list[float]
    webhook_drops: list[int]
    busiest: list[str]
    busiest_running: list[int]
    busiest_waiting: list[int]
    # Values of labels: the key and the value of each, and what runs and waits of their tenants.
    label_keys: list[str]
    label_values: list[str]
    label_running: list[int]
    label_waiting: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is wanted, and from when on something counts as late or gone."""

    busiest: int
    overdue: timedelta
    gone: timedelta
    auto_paused: str
    label_keys: tuple[str, ...] = ()
    # So many values of each key; the others are summed up.
    label_values: int = 0


async def measure(connection: AsyncConnection, asked: Asked, at: datetime | None) -> Measured:
    """Read the numbers, or give up after two seconds."""
    await connection.exec_driver_sql(_LONGEST)
    parameters = {
        "at": at,
        "busiest": asked.busiest,
        "overdue": asked.overdue,
        "gone": asked.gone,
        "auto_paused": asked.auto_paused,
        "label_keys": list(asked.label_keys),
        "label_values": asked.label_values,
    }
    row = (await connection.exec_driver_sql(statement("measure"), parameters)).one()
    return Measured(**row._mapping)
