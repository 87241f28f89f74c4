"""Metrics, as Prometheus reads them: what this process counts, and the state of the whole.

What a process counts (`counts`) is its own; over all replicas it is summed up. The state of the
whole is read from the database when somebody asks, at most every few seconds and never for longer
than two: every process that is asked tells the same, so it is not to be summed up. If it cannot be
read, it is left out and `tenantcron_database_up` is 0; old numbers would look like good ones.

No label grows with the tenants, unless the settings `metrics_busiest_tenants` or `metrics_labels`
say so, and then only up to a bound.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.settings import Settings
from tenantcron.scheduler.inspect.audit_findings import AuditCode
from tenantcron.scheduler.inspect.cluster_status import AUTO_PAUSED, OVERDUE
from tenantcron.scheduler.inspect.schedule_status import LEASES_TO_BE_GONE, alive, without_runner
from tenantcron.scheduler.metrics.counts import Counts, Tally
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.fire import RANKS
from tenantcron.scheduler.steps.idempotency_retention import Retention
from tenantcron.scheduler.steps.reasons import ENDS
from tenantcron.scheduler.tokens.token_minting import MintCounts, MintFailure
from tenantcron.schedules.settings import Priority
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import workers
from tenantcron.store.steps import requirements
from tenantcron.store.steps.measuring import Asked, Measured, measure

FRESH_SECONDS: Final = 5.0
# Whoever scrapes gives up after ten seconds; the database may not even answer with an error.
_PATIENCE: Final = 5.0
_PREFIX: Final = "tenantcron_"
# So many sagas without a runner get numbers of their own.
MOST_SAGAS: Final = 20


class Kind(StrEnum):
    """What becomes of a metric's values over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric: its name without `tenantcron_`, its kind, what it tells, and its labels."""

    name: str
    kind: Kind
    tells: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name that it is asked for by."""
        return f"{_PREFIX}{self.name}"

    def family(self) -> Family:
        """Return a family to be filled; a counter's own name has no suffix, its samples do."""
        return Family(self.full_name.removesuffix("_total"), self.tells, self.kind.value)


_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

FIRED = Metric("executions_fired_total", _COUNTER, "Executions that occurrences got.")
ENDED = Metric(
    "executions_total",
    _COUNTER,
    "Executions that ended, by state and kind of reason.",
    ("state", "reason"),
)
DURATION = Metric(
    "execution_duration_seconds", _HISTOGRAM, "How long attempts of executions ran.", ("outcome",)
)
LATENESS = Metric(
    "execution_lateness_seconds", _HISTOGRAM, "From when an attempt might start to its start."
)
REFRESH = Metric(
    "refresh_duration_seconds", _HISTOGRAM, "How long it took to follow changed schedules."
)
LEASES_LOST = Metric(
    "leases_lost_total", _COUNTER, "Leases that this replica lost while it ran what they were for."
)
LEASES_RECOVERED = Metric(
    "leases_recovered_total", _COUNTER, "Expired leases whose executions this replica took over."
)
RESULTS_REFUSED = Metric(
    "results_refused_total", _COUNTER, "Results that came too late, without a lease."
)
LOOP_BLOCKED = Metric(
    "loop_blocked_seconds_total", _COUNTER, "Seconds that handlers blocked the event loop for."
)
MINTED = Metric("tokens_minted_total", _COUNTER, "Execution tokens that were minted.")
MINT_FAILURES = Metric(
    "token_mint_failures_total", _COUNTER, "Execution tokens that were refused.", ("reason",)
)
EVENTS_DELIVERED = Metric(
    "webhook_events_delivered_total", _COUNTER, "Events that webhooks took.", ("webhook",)
)
WEBHOOK_FAILURES = Metric(
    "webhook_failures_total", _COUNTER, "Calls of webhooks that were not taken.", ("webhook",)
)
MARGIN = Metric(
    "retention_margin_seconds",
    _GAUGE,
    "What the tightest retry of the last hour has left until its target forgets the key.",
)
HERE = Metric("replica_running", _GAUGE, "Executions that run in this replica.")
ABANDONED = Metric(
    "handlers_abandoned", _GAUGE, "Handlers that run on in this replica after their time was up."
)
FINDINGS = Metric("audit_findings", _GAUGE, "Findings of the last audit.", ("code",))
AUDITED = Metric("audit_last_run_timestamp_seconds", _GAUGE, "When the last audit was made.")

UP = Metric("database_up", _GAUGE, "Whether the state of the whole could be read.")
RUNNING = Metric("executions_running", _GAUGE, "Executions that run, over all replicas.")
LIMIT = Metric("executions_running_limit", _GAUGE, "How many may run at once, over all replicas.")
AT_LIMIT = Metric("tenants_at_limit", _GAUGE, "Tenants that can start nothing more.")
PENDING = Metric("executions_pending", _GAUGE, "Executions that wait, by priority.", ("priority",))
WITHOUT_RUNNER = Metric(
    "executions_without_runner",
    _GAUGE,
    "Pending executions that no live replica can run, of the sagas with the most.",
    ("saga",),
)
LONGEST_WAIT = Metric(
    "executions_longest_wait_seconds", _GAUGE, "How long one has waited that might start."
)
LAG = Metric("cursor_lag_seconds", _GAUGE, "How long the most overdue schedule has been due.")
QUIET = Metric(
    "schedules_quiet", _GAUGE, "Schedules that should fire and do not, by cause.", ("cause",)
)
NOT_FOLLOWED = Metric(
    "tenants_not_followed", _GAUGE, "Tenants whose changed schedules are not followed yet."
)
WEBHOOK_LAG = Metric(
    "webhook_lag_seconds",
    _GAUGE,
    "How long the oldest event of a webhook that is on has waited.",
    ("webhook",),
)
WEBHOOK_DROPPED = Metric(
    "webhook_events_dropped_total", _COUNTER, "Events that waited too long.", ("webhook",)
)
REPLICAS = Metric("replicas", _GAUGE, "Schedulers that have been heard of lately.")
TENANT_RUNNING = Metric(
    "tenant_executions_running",
    _GAUGE,
    "Executions that run, of the busiest tenants.",
    ("tenant",),
)
TENANT_PENDING = Metric(
    "tenant_executions_pending",
    _GAUGE,
    "Executions that wait, of the busiest tenants.",
    ("tenant",),
)
LABEL_RUNNING = Metric(
    "label_executions_running",
    _GAUGE,
    "Executions that run, by a label of their tenants.",
    ("key", "value"),
)
LABEL_PENDING = Metric(
    "label_executions_pending",
    _GAUGE,
    "Executions that wait, by a label of their tenants.",
    ("key", "value"),
)

# In the order above.
METRICS: Final = tuple(one for one in tuple(vars().values()) if isinstance(one, Metric))


@dataclass(frozen=True, slots=True)
class Process:
    """What a scheduler knows of itself."""

    counts: Counts
    executor: Executor
    minted: MintCounts
    retention: Retention


class Metrics:
    """Answers scrapes of one process; without a `Process` it tells the state of the whole."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        process: Process | None = None,
        clock: Clock = database_clock,
    ) -> None:
        self._database = database
        self._process = process
        self._clock = clock
        self._asked = Asked(
            busiest=settings.metrics_busiest_tenants,
            overdue=OVERDUE,
            gone=LEASES_TO_BE_GONE * settings.lease,
            auto_paused=AUTO_PAUSED,
            label_keys=settings.metrics_labels,
            label_values=settings.metrics_label_values,
        )
        self._reading = asyncio.Lock()
        self._measured: Measured | None = None
        self._lease = settings.lease
        self._without_runner: Counter[str] = Counter()
        self._read_at = float("-inf")

    async def scrape(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        # Many may ask at once; one of them reads.
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if now - self._read_at > FRESH_SECONDS:
                self._measured, self._read_at = await self._read(), now
        families = [] if self._process is None else list(_of_process(self._process))
        registry = CollectorRegistry()
        families += _of_whole(self._measured)
        if self._measured is not None:
            families.append(_each(WITHOUT_RUNNER, _by_saga(self._without_runner)))
        registry.register(_Collected(families))
        return generate_latest(registry)

    async def _read(self) -> Measured | None:
        try:
            async with (
                asyncio.timeout(_PATIENCE),
                self._database.transaction(by_key=True) as connection,
            ):
                measured = await measure(connection, self._asked, self._clock())
                self._without_runner = await self._count_without_runner(connection)
                return measured
        except (DatabaseError, DBAPIError, TimeoutError):
            return None

    async def _count_without_runner(self, connection: AsyncConnection) -> Counter[str]:
        now = await times.moment(connection, self._clock())
        replicas = alive(await workers.list_all(connection), now, self._lease)
        # Without any replica nothing has a runner, and another metric shows that.
        pending = await requirements.pending(connection) if replicas else []
        missing = set(without_runner([one.requires for one in pending], replicas))
        counted: Counter[str] = Counter()
        for one in pending:
            counted[one.saga] += one.number if one.requires in missing else 0
        return counted


class _Collected(Collector):
    """Families that are there already."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def _of_process(process: Process) -> Iterator[Family]:
    counts, margin = process.counts, process.retention.margin
    yield _one(FIRED, counts.fired)
    ended = {**dict.fromkeys(ENDS, 0), **counts.ended}
    yield _each(ENDED, {(state, kind): number for (state, kind), number in ended.items()})
    yield _histogram(DURATION, {(outcome,): tally for outcome, tally in counts.durations.items()})
    yield _histogram(LATENESS, {(): counts.lateness})
    yield _histogram(REFRESH, {(): counts.refreshes})
    yield _one(LEASES_LOST, counts.leases_lost)
    yield _one(LEASES_RECOVERED, counts.leases_recovered)
    yield _one(RESULTS_REFUSED, counts.results_refused)
    yield _one(LOOP_BLOCKED, counts.loop_blocked_seconds)
    yield _one(MINTED, process.minted.minted)
    yield _each(MINT_FAILURES, {(one,): process.minted.failed[one] for one in MintFailure})
    yield _each(EVENTS_DELIVERED, _by_webhook(counts.events_delivered))
    yield _each(WEBHOOK_FAILURES, _by_webhook(counts.webhook_failures))
    yield _one(HERE, process.executor.load)
    yield _one(ABANDONED, process.executor.abandoned)
    if margin is not None:
        yield _one(MARGIN, margin)
    if counts.audited is not None:
        yield _each(FINDINGS, {(code,): counts.audited.findings[code] for code in AuditCode})
        yield _one(AUDITED, counts.audited.at.timestamp())


def _of_whole(measured: Measured | None) -> Iterator[Family]:
    yield _one(UP, 0 if measured is None else 1)
    if measured is None:
        return
    yield _one(RUNNING, measured.running)
    # Without the row of limits nothing starts.
    yield _one(LIMIT, measured.running_limit or 0)
    yield _one(AT_LIMIT, measured.tenants_at_limit)
    yield _each(PENDING, _by_priority(measured))
    yield _one(LONGEST_WAIT, measured.longest_wait or 0.0)
    yield _one(LAG, measured.cursor_lag or 0.0)
    yield _each(QUIET, _quiet(measured))
    yield _one(NOT_FOLLOWED, measured.tenants_not_followed)
    yield _each(WEBHOOK_LAG, _by_name(measured.webhooks, measured.webhook_lags))
    yield _each(WEBHOOK_DROPPED, _by_name(measured.webhooks, measured.webhook_drops))
    yield _one(REPLICAS, measured.replicas)
    if measured.busiest:
        yield _each(TENANT_RUNNING, _by_name(measured.busiest, measured.busiest_running))
        yield _each(TENANT_PENDING, _by_name(measured.busiest, measured.busiest_waiting))
    if measured.label_keys:
        pairs = list(zip(measured.label_keys, measured.label_values, strict=True))
        yield _each(LABEL_RUNNING, dict(zip(pairs, measured.label_running, strict=True)))
        yield _each(LABEL_PENDING, dict(zip(pairs, measured.label_waiting, strict=True)))


def _by_priority(measured: Measured) -> dict[tuple[str, ...], int]:
    waiting = dict(zip(measured.priorities, measured.waiting, strict=True))
    return {(priority.value,): waiting.get(RANKS[priority], 0) for priority in Priority}


def _quiet(measured: Measured) -> dict[tuple[str, ...], int]:
    return {
        ("overdue",): measured.overdue,
        ("set_aside",): measured.set_aside,
        ("auto_paused",): measured.auto_paused,
    }


def _by_name(names: Iterable[str], numbers: Iterable[float]) -> dict[tuple[str, ...], float]:
    return {(name,): number for name, number in zip(names, numbers, strict=True)}


def _by_saga(counted: Counter[str]) -> dict[tuple[str, ...], float]:
    """Name the sagas with the most; any number of sagas would be any number of series."""
    return {(saga,): number for saga, number in counted.most_common(MOST_SAGAS) if number}


def _by_webhook(counted: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return _by_name(counted.keys(), counted.values())


def _one(metric: Metric, value: float) -> Family:
    return _each(metric, {(): value})


def _each(metric: Metric, values: Mapping[tuple[str, ...], float]) -> Family:
    family = metric.family()
    for labels, value in values.items():
        family.add_sample(metric.full_name, _labels(metric, labels), value)
    return family


def _histogram(metric: Metric, tallies: Mapping[tuple[str, ...], Tally]) -> Family:
    family, name = metric.family(), metric.full_name
    for values, tally in tallies.items():
        labels, number = _labels(metric, values), 0
        for bound, number in tally.up_to():
            family.add_sample(f"{name}_bucket", {**labels, "le": _bound(bound)}, number)
        family.add_sample(f"{name}_count", labels, number)
        family.add_sample(f"{name}_sum", labels, tally.total)
    return family


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)


def _labels(metric: Metric, values: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(metric.labels, values, strict=True))
