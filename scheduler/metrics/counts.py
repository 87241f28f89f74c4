"""Counters and histograms of one process. `prometheus` exports them as metrics.

These are plain numbers, updated once per batch. `prometheus_client.Histogram` observes values one
by one under a lock, which is too slow for thousands of executions a second.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from tenantcron.events.delivery import EventCounts
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.rows.executions import State
from tenantcron.store.steps.claiming import Claim
from tenantcron.store.steps.finishing import EndedAttempt, Finished

# Bucket bounds in seconds, from quick handlers to the longest timeouts.
DURATIONS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
# From an immediate start to a catch-up after an hour.
LATENESS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0)
# From an immediate start to a catch-up after an hour, with few series per saga.
SAGA_DELAYS: Final = (0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 3600.0)
SAGA_DURATIONS: Final = (0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0)
# 0.1 is the objective of the API; see deploy/alerts.yml.
REQUESTS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
# The sagas that have their own series; all others are `other`.
MOST_SAGAS: Final = 20
OTHER: Final = "other"
# The highest number of an attempt with its own series.
MOST_ATTEMPTS: Final = 10
REFRESHES: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)
_DEADLY: Final = (
    ReasonCode.FAILED,
    ReasonCode.TIMED_OUT,
    ReasonCode.HEARTBEAT_MISSED,
    ReasonCode.KILLED_WORKER,
    ReasonCode.INTERRUPTED,
    ReasonCode.KEY_FORGOTTEN,
    ReasonCode.UNREADABLE,
)
_UNSTARTED: Final = (
    ReasonCode.LIMIT,
    ReasonCode.TENANT_LIMIT,
    ReasonCode.RATE_LIMIT,
    ReasonCode.START_QUOTA,
    ReasonCode.TENANT_INACTIVE,
    ReasonCode.SOURCE_STALE,
    ReasonCode.PAUSED,
    ReasonCode.DISABLED,
    ReasonCode.REMOVED,
    ReasonCode.STILL_RUNNING,
    ReasonCode.REPLACED,
    ReasonCode.NO_SCHEDULER,
    ReasonCode.NO_RUNNER,
)
# All combinations that can occur, so that each has a series before its first execution.
ENDS: Final[tuple[tuple[State, str | None], ...]] = (
    (State.SUCCEEDED, None),
    *((State.DEAD, code) for code in _DEADLY),
    *((State.SKIPPED, code) for code in (*_UNSTARTED, ReasonCode.OWNER_REFUSED)),
    (State.MISSED, ReasonCode.NO_SCHEDULER),
    (State.CANCELLED, ReasonCode.CANCELLED),
    *((State.CANCELLED, code) for code in _UNSTARTED),
)


class DurationHistogram:
    """A histogram of seconds, with the number of values per bucket and their sum."""

    __slots__ = ("_bounds", "_bucket_of", "_buckets", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._bucket_of = partial(bisect_left, bounds)
        self._buckets: Counter[int] = Counter()
        self.total = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Add many values."""
        self._buckets.update(map(self._bucket_of, values))
        self.total += sum(values)

    def add_times(self, value: float, times: int) -> None:
        """Add the same value several times."""
        self._buckets[self._bucket_of(value)] += times
        self.total += value * times

    def cumulative(self) -> Iterable[tuple[float, int]]:
        """Yield each upper bound, the last one infinite, with the number of values up to it."""
        number = 0
        for bucket, bound in enumerate((*self._bounds, float("inf"))):
            number += self._buckets[bucket]
            yield bound, number


def _durations() -> dict[AttemptOutcome, DurationHistogram]:
    return {outcome: DurationHistogram(DURATIONS) for outcome in AttemptOutcome}


class SagaCounts:
    """Counters of the sagas that this process ran first; a series per saga would have no bound."""

    __slots__ = ("_known", "delays", "durations", "ended")

    def __init__(self) -> None:
        self._known: set[str] = set()
        self.ended: Counter[tuple[str, State]] = Counter()
        self.durations: dict[str, DurationHistogram] = {}
        self.delays: dict[str, DurationHistogram] = {}

    def label(self, saga: str) -> str:
        """Return the label of a saga; it never changes, because counters must not decrease."""
        if saga in self._known:
            return saga
        if len(self._known) >= MOST_SAGAS:
            return OTHER
        self._known.add(saga)
        self.durations[saga] = DurationHistogram(SAGA_DURATIONS)
        self.delays[saga] = DurationHistogram(SAGA_DELAYS)
        return saga

    def note_delay(self, saga: str, seconds: float, times: int) -> None:
        """Count first attempts that started that long after their scheduled time."""
        label = self.label(saga)
        _of(self.delays, label, SAGA_DELAYS).add_times(seconds, times)

    def note_end(self, saga: str, state: State, seconds: float, times: int) -> None:
        """Count attempts, and the executions that they ended."""
        label = self.label(saga)
        _of(self.durations, label, SAGA_DURATIONS).add_times(seconds, times)
        if state is not State.RETRYING:
            self.ended[label, state] += times


def _of(
    histograms: dict[str, DurationHistogram], label: str, bounds: tuple[float, ...]
) -> DurationHistogram:
    if label not in histograms:
        histograms[label] = DurationHistogram(bounds)
    return histograms[label]


class RequestCounts:
    """The durations of the requests that this process of the API has served."""

    __slots__ = ("durations",)

    def __init__(self) -> None:
        classes = ("2xx", "3xx", "4xx", "5xx")
        self.durations = {status: DurationHistogram(REQUESTS) for status in classes}

    def note(self, status: int, seconds: float) -> None:
        """Count a request by the class of its status."""
        histogram = self.durations.get(f"{status // 100}xx")
        if histogram is not None:
            histogram.add_times(seconds, 1)


@dataclass(frozen=True, slots=True)
class LastAudit:
    """The time of an audit, and the number of its findings by code."""

    at: datetime
    findings: Counter[str]


@dataclass(slots=True)
class Counts:
    """The counters of one process since it started."""

    fired: int = 0
    ended: Counter[tuple[State, str | None]] = field(default_factory=Counter)
    durations: dict[AttemptOutcome, DurationHistogram] = field(default_factory=_durations)
    lateness: DurationHistogram = field(default_factory=lambda: DurationHistogram(LATENESS))
    refreshes: DurationHistogram = field(default_factory=lambda: DurationHistogram(REFRESHES))
    # Leases that this process lost, and leases of other processes that it recovered.
    leases_lost: int = 0
    leases_recovered: int = 0
    results_refused: int = 0
    sagas: SagaCounts = field(default_factory=SagaCounts)
    # Failed attempts that are retried, by the number of the next attempt.
    retries: Counter[int] = field(default_factory=Counter)
    # Blocks of the event loop by handlers, of a second or more.
    loop_blocked_seconds: float = 0.0
    events: EventCounts = field(default_factory=EventCounts)
    # None: this process has made no audit.
    audited: LastAudit | None = None

    def note_claim(self, claim: Claim) -> None:
        """Count the executions that a claim started and ended."""
        if claim.lateness:
            self.lateness.add(claim.lateness)
        # Most executions of a claim have the same times, so grouping leaves few entries.
        first = Counter(
            (claimed.saga_name, claimed.scheduled_for, claimed.started_at)
            for claimed in claim.started
            if claimed.attempt == 1
        )
        for (saga, scheduled_for, started_at), number in first.items():
            self.sagas.note_delay(saga, _seconds(scheduled_for, started_at), number)
        for execution in claim.skipped:
            self.ended[execution.state, execution.reason_code] += 1

    def note_unstarted(self, ended: Mapping[tuple[State, str], int]) -> None:
        """Count executions that ended without a start, by state and code of the reason."""
        for (state, code), number in ended.items():
            self.ended[state, code] += number

    def note_ended(self, ended: Iterable[EndedAttempt], finished: Finished) -> None:
        """Count the recorded attempts of a batch, and the executions that they ended."""
        # Executions of one claim have the same start, so grouping leaves few entries.
        alike = Counter(
            (
                attempt.state,
                attempt.outcome,
                attempt.reason_code,
                attempt.claimed.started_at,
                attempt.claimed.saga_name,
                attempt.claimed.attempt if attempt.state is State.RETRYING else 0,
            )
            for attempt in _recorded(ended, finished)
        )
        for (state, outcome, code, started_at, saga, retried), number in alike.items():
            seconds = _seconds(started_at, finished.at)
            self.durations[AttemptOutcome(outcome)].add_times(seconds, number)
            self.sagas.note_end(saga, state, seconds, number)
            if state is not State.RETRYING:
                self.ended[state, code] += number
            else:
                self.retries[min(retried + 1, MOST_ATTEMPTS)] += number
        self.results_refused += len(finished.refused)


def _recorded(ended: Iterable[EndedAttempt], finished: Finished) -> Iterable[EndedAttempt]:
    """Return the attempts as recorded, without those that were rejected."""
    if not finished.refused and not finished.cancelled:
        return ended
    return (
        finished.as_written(attempt)
        for attempt in ended
        if not finished.is_refused(attempt.claimed)
    )


def _seconds(since: datetime, until: datetime | None) -> float:
    return 0.0 if until is None else max((until - since).total_seconds(), 0.0)
