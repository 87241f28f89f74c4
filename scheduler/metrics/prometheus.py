"""Prometheus metrics: the counters of this process, and the state of the cluster.

Counters (`counts`) belong to one process; sum them over all replicas. The state of the cluster is
read from the database on a scrape, at most once every few seconds. Every process reports the same
state, so do not sum it. If it cannot be read, its metrics are omitted and `tenantcron_database_up`
is 0, because stale values would look like good ones.

No label has a value per tenant, unless the settings `metrics_busiest_tenants` or `metrics_labels`
enable that, and then only up to a limit.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import QueuePool

from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.requirements import limited_host
from tenantcron.core.settings import Settings
from tenantcron.scheduler.inspect.audit_findings import AuditCode
from tenantcron.scheduler.inspect.cluster_status import OVERDUE
from tenantcron.scheduler.inspect.start_conditions import LEASES_TO_BE_GONE, alive, without_runner
from tenantcron.scheduler.metrics.counts import (
    ENDS,
    MOST_ATTEMPTS,
    MOST_SAGAS,
    Counts,
    DurationHistogram,
    RequestCounts,
    SagaCounts,
)
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.fire import RANKS
from tenantcron.scheduler.steps.idempotency_retention import Retention
from tenantcron.scheduler.tokens.token_minting import MintCounts, MintFailure
from tenantcron.schedules.pause import AUTO_PAUSED
from tenantcron.schedules.settings import Priority
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import workers
from tenantcron.store.steps import requirements
from tenantcron.store.steps.measuring import (
    ClusterMetrics,
    HistoryMetrics,
    HistoryQuery,
    MetricsQuery,
    measure,
    measure_history,
)

FRESH_SECONDS: Final = 5.0
# Prometheus times out after ten seconds by default, and the database may not answer at all.
_PATIENCE: Final = 5.0
_PREFIX: Final = "tenantcron_"
# What is expensive to read changes slowly.
HISTORY_SECONDS: Final = 60.0
# Dead executions are counted that far back, and up to that many.
DEAD_FOR: Final = timedelta(days=7)
MOST_DEAD: Final = 10_000
# Waiting tasks are counted up to that many, and estimated above.
MOST_TASKS: Final = 10_000


class MetricType(StrEnum):
    """The type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric: its name without `tenantcron_`, its type, its help text and its labels."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in queries."""
        return f"{_PREFIX}{self.name}"

    def family(self) -> Family:
        """Return an empty family; the name of a counter family has no suffix, its samples do."""
        return Family(self.full_name.removesuffix("_total"), self.help, self.type.value)


# The label of executions that succeeded.
NO_REASON: Final = "none"
_COUNTER, _GAUGE, _HISTOGRAM = MetricType.COUNTER, MetricType.GAUGE, MetricType.HISTOGRAM

FIRED = Metric(
    "executions_fired_total",
    _COUNTER,
    "Executions that this process created for occurrences and tasks.",
)
ENDED = Metric(
    "executions_total",
    _COUNTER,
    "Ended executions, by state and code of the reason.",
    ("state", "reason"),
)
DURATION = Metric("execution_duration_seconds", _HISTOGRAM, "Duration of attempts.", ("outcome",))
LATENESS = Metric(
    "execution_lateness_seconds", _HISTOGRAM, "Delay from the planned start of an attempt."
)
SAGA_ENDED = Metric(
    "saga_executions_total",
    _COUNTER,
    "Started executions that ended, by saga and state.",
    ("saga", "state"),
)
SAGA_DURATION = Metric(
    "saga_duration_seconds", _HISTOGRAM, "Duration of attempts, by saga.", ("saga",)
)
SAGA_DELAY = Metric(
    "saga_delay_seconds",
    _HISTOGRAM,
    "Delay of first attempts from their scheduled time, by saga.",
    ("saga",),
)
RETRIES = Metric(
    "retries_total",
    _COUNTER,
    "Failed attempts that are retried, by the number of the next attempt.",
    ("attempt",),
)
REFRESH = Metric(
    "refresh_duration_seconds", _HISTOGRAM, "Duration of refreshes of changed schedules."
)
LEASES_LOST = Metric(
    "leases_lost_total", _COUNTER, "Leases that this replica lost while their executions ran."
)
LEASES_RECOVERED = Metric(
    "leases_recovered_total", _COUNTER, "Expired leases of executions that this replica took over."
)
RESULTS_REFUSED = Metric(
    "results_refused_total", _COUNTER, "Results that were rejected because their lease was lost."
)
LOOP_BLOCKED = Metric(
    "loop_blocked_seconds_total", _COUNTER, "Seconds in which handlers blocked the event loop."
)
MINTED = Metric("tokens_minted_total", _COUNTER, "Minted execution tokens.")
MINT_FAILURES = Metric(
    "token_mint_failures_total", _COUNTER, "Refused execution tokens.", ("reason",)
)
EVENTS_DELIVERED = Metric(
    "webhook_events_delivered_total", _COUNTER, "Events that webhooks accepted.", ("webhook",)
)
WEBHOOK_FAILURES = Metric(
    "webhook_failures_total", _COUNTER, "Failed requests to webhooks.", ("webhook",)
)
BUS_PUBLISHED = Metric(
    "event_bus_events_published_total", _COUNTER, "Events that buses have stored.", ("bus",)
)
BUS_FAILURES = Metric(
    "event_bus_failures_total", _COUNTER, "Failed attempts to publish to buses.", ("bus",)
)
MARGIN = Metric(
    "retention_margin_seconds",
    _GAUGE,
    "Seconds between the tightest retry of the last hour and the expiry of its idempotency key.",
)
RETENTION = Metric(
    "idempotency_retention_seconds", _GAUGE, "How long targets remember idempotency keys."
)
HERE = Metric("replica_running", _GAUGE, "Running executions of this replica.")
ABANDONED = Metric(
    "handlers_abandoned", _GAUGE, "Handlers of this replica that ignore their cancellation."
)
FINDINGS = Metric("audit_findings", _GAUGE, "Findings of the last audit.", ("code",))
AUDITED = Metric("audit_last_run_timestamp_seconds", _GAUGE, "Time of the last audit.")

POOL = Metric("database_connections_in_use", _GAUGE, "Connections to the database that are in use.")
POOL_LIMIT = Metric(
    "database_connections_limit", _GAUGE, "Limit of connections to the database of this process."
)
REQUESTS = Metric(
    "api_request_duration_seconds",
    _HISTOGRAM,
    "Duration of requests to the API, by class of the status.",
    ("status",),
)

UP = Metric("database_up", _GAUGE, "Whether the state of the cluster could be read.")
RUNNING = Metric("executions_running", _GAUGE, "Running executions of the cluster.")
LIMIT = Metric("executions_running_limit", _GAUGE, "Limit of running executions of the cluster.")
AT_LIMIT = Metric("tenants_at_limit", _GAUGE, "Tenants that have reached their limit.")
PENDING = Metric("executions_pending", _GAUGE, "Pending executions, by priority.", ("priority",))
WITHOUT_RUNNER = Metric(
    "executions_without_runner",
    _GAUGE,
    "Pending executions that no live replica can run, for the sagas with the most.",
    ("saga",),
)
RATE_LIMITED = Metric(
    "executions_rate_limited",
    _GAUGE,
    "Pending executions for hosts with a rate limit.",
    ("host",),
)
QUEUED = Metric(
    "executions_queued",
    _GAUGE,
    "Pending executions that may start now, and those that may start later.",
    ("when",),
)
LONGEST_WAIT = Metric(
    "executions_longest_wait_seconds", _GAUGE, "Longest wait of an execution that may start."
)
LAG = Metric("cursor_lag_seconds", _GAUGE, "Lateness of the most overdue schedule.")
TASK_LAG = Metric("task_lag_seconds", _GAUGE, "Lateness of the most overdue waiting task.")
QUIET = Metric(
    "schedules_quiet", _GAUGE, "Schedules that should fire and do not, by cause.", ("cause",)
)
NOT_FOLLOWED = Metric(
    "tenants_not_followed", _GAUGE, "Tenants whose cursors are not in sync with their schedules."
)
WEBHOOK_LAG = Metric(
    "webhook_lag_seconds",
    _GAUGE,
    "Age of the oldest undelivered event of an enabled webhook.",
    ("webhook",),
)
WEBHOOK_DROPPED = Metric(
    "webhook_events_dropped_total", _COUNTER, "Events that expired undelivered.", ("webhook",)
)
BUS_LAG = Metric(
    "event_bus_lag_seconds", _GAUGE, "Age of the oldest unpublished event of a bus.", ("bus",)
)
BUS_DROPPED = Metric(
    "event_bus_events_dropped_total",
    _COUNTER,
    "Events that expired unpublished, or that a bus refused.",
    ("bus",),
)
SCHEDULES = Metric("schedules", _GAUGE, "Schedules, by state.", ("state",))
DEAD = Metric("executions_dead", _GAUGE, "Dead executions of the last week, by saga.", ("saga",))
TASKS = Metric(
    "tasks_waiting", _GAUGE, "Tasks that are not fired yet: due now, and due later.", ("when",)
)
LOCKS = Metric("database_lock_waits", _GAUGE, "Sessions of the database that wait for a lock.")
STANDBY_LAG = Metric(
    "database_standby_lag_seconds", _GAUGE, "Replay lag of the slowest streaming standby."
)
REPLICAS = Metric("replicas", _GAUGE, "Live replicas.")
TENANT_RUNNING = Metric(
    "tenant_executions_running",
    _GAUGE,
    "Running executions of the busiest tenants.",
    ("tenant",),
)
TENANT_PENDING = Metric(
    "tenant_executions_pending",
    _GAUGE,
    "Pending executions of the busiest tenants.",
    ("tenant",),
)
LABEL_RUNNING = Metric(
    "label_executions_running",
    _GAUGE,
    "Running executions, by a label of their tenants.",
    ("key", "value"),
)
LABEL_PENDING = Metric(
    "label_executions_pending",
    _GAUGE,
    "Pending executions, by a label of their tenants.",
    ("key", "value"),
)

# In the order above.
METRICS: Final = tuple(value for value in tuple(vars().values()) if isinstance(value, Metric))


@dataclass(frozen=True, slots=True)
class Process:
    """The sources of the metrics of one scheduler process."""

    counts: Counts
    executor: Executor
    minted: MintCounts
    retention: Retention


class Metrics:
    """Collects the metrics of one process; without a `Process` only the state of the cluster."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        process: Process | None = None,
        clock: Clock = database_clock,
        requests: RequestCounts | None = None,
    ) -> None:
        self._database = database
        self._process = process
        self._clock = clock
        self._asked = MetricsQuery(
            busiest=settings.metrics_busiest_tenants,
            overdue=OVERDUE,
            gone=LEASES_TO_BE_GONE * settings.lease,
            auto_paused=AUTO_PAUSED,
            label_keys=settings.metrics_labels,
            label_values=settings.metrics_label_values,
        )
        self._reading = asyncio.Lock()
        self._measured: ClusterMetrics | None = None
        self._lease = settings.lease
        self._without_runner: Counter[str] = Counter()
        self._rate_limited: Counter[str] = Counter()
        self._read_at = float("-inf")
        self._requests = requests
        self._history: HistoryMetrics | None = None
        self._history_at = float("-inf")

    async def scrape(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        # Of several concurrent scrapes only one queries the database.
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if now - self._read_at > FRESH_SECONDS:
                self._measured, self._read_at = await self._read(), now
            if self._measured is not None and now - self._history_at > HISTORY_SECONDS:
                self._history, self._history_at = await self._read_history(), now
        families = [] if self._process is None else list(_process_metrics(self._process))
        families += _pool_metrics(self._database)
        if self._requests is not None:
            durations = self._requests.durations
            families.append(
                _histogram(REQUESTS, {(status,): found for status, found in durations.items()})
            )
        registry = CollectorRegistry()
        families += _cluster_metrics(self._measured)
        if self._measured is not None:
            families.append(_each(WITHOUT_RUNNER, _by_saga(self._without_runner)))
            families.append(_each(RATE_LIMITED, _counted(self._rate_limited)))
            families += _history_metrics(self._history)
        registry.register(_Collected(families))
        return generate_latest(registry)

    async def _read(self) -> ClusterMetrics | None:
        try:
            async with (
                asyncio.timeout(_PATIENCE),
                self._database.transaction(by_key=True) as connection,
            ):
                measured = await measure(connection, self._asked, self._clock())
                await self._count_pending(connection)
                return measured
        except (DatabaseError, DBAPIError, TimeoutError):
            return None

    async def _read_history(self) -> HistoryMetrics | None:
        try:
            async with (
                asyncio.timeout(_PATIENCE),
                self._database.transaction() as connection,
            ):
                query = HistoryQuery(DEAD_FOR, MOST_DEAD, MOST_TASKS, MOST_SAGAS, AUTO_PAUSED)
                return await measure_history(connection, query, self._clock())
        except (DatabaseError, DBAPIError, TimeoutError):
            return None

    async def _count_pending(self, connection: AsyncConnection) -> None:
        """Count pending executions that no replica can run, or whose host has a rate limit."""
        now = await times.moment(connection, self._clock())
        replicas = alive(await workers.list_all(connection), now, self._lease)
        # Without replicas nothing has a runner, and another metric shows that.
        pending = await requirements.pending(connection) if replicas else []
        missing = set(without_runner([entry.requires for entry in pending], replicas))
        self._without_runner, self._rate_limited = Counter(), Counter()
        for entry in pending:
            self._without_runner[entry.saga] += entry.number if entry.requires in missing else 0
            if (limited := limited_host(entry.requires)) is not None:
                self._rate_limited[limited[1]] += entry.number


class _Collected(Collector):
    """A collector of prepared families."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def _pool_metrics(database: Database) -> Iterator[Family]:
    pool = database.engine.pool
    if isinstance(pool, QueuePool):
        yield _one(POOL, pool.checkedout())
        yield _one(POOL_LIMIT, pool.size())


def _saga_metrics(sagas: SagaCounts) -> Iterator[Family]:
    yield _each(SAGA_ENDED, {(saga, state.value): n for (saga, state), n in sagas.ended.items()})
    yield _histogram(SAGA_DURATION, {(saga,): found for saga, found in sagas.durations.items()})
    yield _histogram(SAGA_DELAY, {(saga,): found for saga, found in sagas.delays.items()})


def _history_metrics(measured: HistoryMetrics | None) -> Iterator[Family]:
    if measured is None:
        return
    yield _each(SCHEDULES, _by_name(measured.schedule_states, measured.schedules))
    yield _each(DEAD, _by_name(measured.dead_sagas, measured.dead))
    yield _each(TASKS, {("now",): measured.tasks_due, ("later",): measured.tasks_future})
    yield _one(LOCKS, measured.lock_waits)
    if measured.standby_lag is not None:
        yield _one(STANDBY_LAG, measured.standby_lag)


def _process_metrics(process: Process) -> Iterator[Family]:
    counts, retention = process.counts, process.retention
    yield _one(FIRED, counts.fired)
    ended = {**dict.fromkeys(ENDS, 0), **counts.ended}
    yield _each(
        ENDED, {(state, code or NO_REASON): number for (state, code), number in ended.items()}
    )
    yield _histogram(
        DURATION, {(outcome,): counts.durations[outcome] for outcome in AttemptOutcome}
    )
    yield _histogram(LATENESS, {(): counts.lateness})
    yield from _saga_metrics(counts.sagas)
    attempts = range(2, MOST_ATTEMPTS + 1)
    yield _each(RETRIES, {(str(attempt),): counts.retries[attempt] for attempt in attempts})
    yield _histogram(REFRESH, {(): counts.refreshes})
    yield _one(LEASES_LOST, counts.leases_lost)
    yield _one(LEASES_RECOVERED, counts.leases_recovered)
    yield _one(RESULTS_REFUSED, counts.results_refused)
    yield _one(LOOP_BLOCKED, counts.loop_blocked_seconds)
    yield _one(MINTED, process.minted.minted)
    failed = process.minted.failed
    yield _each(MINT_FAILURES, {(failure,): failed[failure] for failure in MintFailure})
    yield _each(EVENTS_DELIVERED, _counted(counts.events.delivered))
    yield _each(WEBHOOK_FAILURES, _counted(counts.events.webhook_failures))
    yield _each(BUS_PUBLISHED, _counted(counts.events.published))
    yield _each(BUS_FAILURES, _counted(counts.events.bus_failures))
    yield _one(HERE, process.executor.load)
    yield _one(ABANDONED, process.executor.abandoned)
    # Without a retry, all of the retention is left.
    keeps = retention.keeps.total_seconds()
    yield _one(MARGIN, keeps if retention.margin is None else retention.margin)
    yield _one(RETENTION, keeps)
    if counts.audited is not None:
        yield _each(FINDINGS, {(code,): counts.audited.findings[code] for code in AuditCode})
        yield _one(AUDITED, counts.audited.at.timestamp())


def _cluster_metrics(measured: ClusterMetrics | None) -> Iterator[Family]:
    yield _one(UP, 0 if measured is None else 1)
    if measured is None:
        return
    yield _one(RUNNING, measured.running)
    # Without a limits row nothing starts.
    yield _one(LIMIT, measured.running_limit or 0)
    yield _one(AT_LIMIT, measured.tenants_at_limit)
    yield _each(PENDING, _by_priority(measured))
    yield _each(QUEUED, {("now",): measured.startable, ("later",): measured.future})
    yield _one(LONGEST_WAIT, measured.longest_wait or 0.0)
    yield _one(LAG, measured.cursor_lag or 0.0)
    yield _one(TASK_LAG, measured.task_lag or 0.0)
    yield _each(QUIET, _quiet(measured))
    yield _one(NOT_FOLLOWED, measured.tenants_not_synced)
    yield _each(WEBHOOK_LAG, _by_name(measured.webhooks, measured.webhook_lags))
    yield _each(WEBHOOK_DROPPED, _by_name(measured.webhooks, measured.webhook_drops))
    yield _each(BUS_LAG, _by_name(measured.buses, measured.bus_lags))
    yield _each(BUS_DROPPED, _by_name(measured.buses, measured.bus_drops))
    yield _one(REPLICAS, measured.replicas)
    if measured.busiest:
        yield _each(TENANT_RUNNING, _by_name(measured.busiest, measured.busiest_running))
        yield _each(TENANT_PENDING, _by_name(measured.busiest, measured.busiest_waiting))
    if measured.label_keys:
        pairs = list(zip(measured.label_keys, measured.label_values, strict=True))
        yield _each(LABEL_RUNNING, dict(zip(pairs, measured.label_running, strict=True)))
        yield _each(LABEL_PENDING, dict(zip(pairs, measured.label_waiting, strict=True)))


def _by_priority(measured: ClusterMetrics) -> dict[tuple[str, ...], int]:
    waiting = dict(zip(measured.priorities, measured.waiting, strict=True))
    return {(priority.value,): waiting.get(RANKS[priority], 0) for priority in Priority}


def _quiet(measured: ClusterMetrics) -> dict[tuple[str, ...], int]:
    return {
        ("overdue",): measured.overdue,
        ("set_aside",): measured.quarantined,
        ("auto_paused",): measured.auto_paused,
    }


def _by_name(names: Iterable[str], numbers: Iterable[float]) -> dict[tuple[str, ...], float]:
    return {(name,): number for name, number in zip(names, numbers, strict=True)}


def _by_saga(counted: Counter[str]) -> dict[tuple[str, ...], float]:
    """Return the sagas with the most executions; a series per saga would have no bound."""
    return {(saga,): number for saga, number in counted.most_common(MOST_SAGAS) if number}


def _counted(counted: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return _by_name(counted.keys(), counted.values())


def _one(metric: Metric, value: float) -> Family:
    return _each(metric, {(): value})


def _each(metric: Metric, values: Mapping[tuple[str, ...], float]) -> Family:
    family = metric.family()
    for labels, value in values.items():
        family.add_sample(metric.full_name, _labels(metric, labels), value)
    return family


def _histogram(metric: Metric, histograms: Mapping[tuple[str, ...], DurationHistogram]) -> Family:
    family = HistogramMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    for labels, histogram in histograms.items():
        buckets = [(_bound(bound), number) for bound, number in histogram.cumulative()]
        family.add_metric(labels, buckets, histogram.total)
    return family


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)


def _labels(metric: Metric, values: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(metric.labels, values, strict=True))
