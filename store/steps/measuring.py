"""Metrics of the cluster, read with one statement."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.steps.statements import statement

# Monitoring must not slow down the cluster.
_LONGEST = "SET LOCAL statement_timeout TO '2s'"


@dataclass(frozen=True, slots=True)
class ClusterMetrics:
    """The metrics of the cluster; the fields are the columns of the statement."""

    running: int
    # None: the row of limits is missing, so nothing starts.
    running_limit: int | None
    tenants_at_limit: int
    priorities: list[int]
    waiting: list[int]
    # Seconds; None: there is no pending execution, or no schedule.
    longest_wait: float | None
    # Pending executions that may start now, and those that may start later.
    startable: int
    future: int
    cursor_lag: float | None
    # None: no task waits.
    task_lag: float | None
    overdue: int
    quarantined: int
    auto_paused: int
    tenants_not_synced: int
    replicas: int
    # Enabled webhooks by name: the age of the oldest event in seconds, and dropped events.
    webhooks: list[str]
    webhook_lags: list[float]
    webhook_drops: list[int]
    # The same for event buses.
    buses: list[str]
    bus_lags: list[float]
    bus_drops: list[int]
    busiest: list[str]
    busiest_running: list[int]
    busiest_waiting: list[int]
    # Labels: key and value, and the running and pending executions of their tenants.
    label_keys: list[str]
    label_values: list[str]
    label_running: list[int]
    label_waiting: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsQuery:
    """Which metrics to read, and when a cursor counts as overdue or a replica as gone."""

    busiest: int
    overdue: timedelta
    gone: timedelta
    auto_paused: str
    label_keys: tuple[str, ...] = ()
    # The number of values per key; the others are summed up.
    label_values: int = 0


async def measure(
    connection: AsyncConnection, query: MetricsQuery, at: datetime | None
) -> ClusterMetrics:
    """Read the metrics, with a timeout of two seconds."""
    await connection.exec_driver_sql(_LONGEST)
    parameters = {
        "at": at,
        "busiest": query.busiest,
        "overdue": query.overdue,
        "gone": query.gone,
        "auto_paused": query.auto_paused,
        "label_keys": list(query.label_keys),
        "label_values": query.label_values,
    }
    row = (await connection.exec_driver_sql(statement("measure"), parameters)).one()
    return ClusterMetrics(**row._mapping)


@dataclass(frozen=True, slots=True)
class HistoryMetrics:
    """Metrics that cost more to read; the fields are the columns of the statement."""

    schedule_states: list[str]
    schedules: list[int]
    # The sagas with the most dead executions, and `other`.
    dead_sagas: list[str]
    dead: list[int]
    # Tasks that are due and not fired, and those that are due later.
    tasks_due: int
    tasks_future: int
    lock_waits: int
    # Seconds; None: there is no standby, or the role may not see it.
    standby_lag: float | None


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """How far back and how many dead executions and tasks to count, how many sagas to name."""

    dead_for: timedelta
    most_dead: int
    most_tasks: int
    sagas: int
    auto_paused: str


async def measure_history(
    connection: AsyncConnection, query: HistoryQuery, at: datetime | None
) -> HistoryMetrics:
    """Read the slow metrics, with a timeout of two seconds."""
    await connection.exec_driver_sql(_LONGEST)
    parameters = {
        "at": at,
        "dead_for": query.dead_for,
        "most_dead": query.most_dead,
        "most_tasks": query.most_tasks,
        "sagas": query.sagas,
        "auto_paused": query.auto_paused,
    }
    row = (await connection.exec_driver_sql(statement("measure_history"), parameters)).one()
    return HistoryMetrics(**row._mapping)
