"""Callbacks: what remote workers report about their attempts.

`store/steps/callbacks.py` has the protocol. A report ends its attempt with the same statement as
the result of a replica: next state, retries, auto-pause, events and audit records are the same.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.combining import Combiner
from tenantcron.core.errors import TenantcronError
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.finish import REFUSED, report_results, write_results
from tenantcron.schedules.execution_reasons import reason_text
from tenantcron.store.connection.conflicts import retry_conflicts
from tenantcron.store.rows.executions import State
from tenantcron.store.steps import callbacks, claiming
from tenantcron.store.steps.callbacks import (
    AttemptReport,
    RecordedEnd,
    Renewal,
    RunningRemotely,
    WorkerProgress,
)
from tenantcron.store.steps.finishing import EndedAttempt, Finished
from tenantcron.targets.faults import LONGEST_TEXT, storable

# The most reports in one transaction.
_REPORTS_AT_ONCE: Final = 200
_TIMED_OUT: Final = AttemptOutcome.TIMED_OUT.value
_STOPPED: Final = (_TIMED_OUT, AttemptOutcome.CANCELLED.value)


@dataclass(frozen=True, slots=True)
class RemoteWorker:
    """A worker with a verified token: its execution, and the digest of its lease."""

    execution: UUID
    lease: str
    # Which delivery of its message it works on; None: it does not distinguish them.
    delivery: str | None = None


@dataclass(frozen=True, slots=True)
class RemoteFailure:
    """Why the work failed, and whether a retry may succeed."""

    message: str
    retryable: bool = True
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class RecordedReport:
    """The recorded outcome of an attempt, and the state of its execution."""

    attempt: int
    outcome: str
    state: State
    # Whether an earlier report recorded it.
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """Whether the worker has to stop, with the reason, and its next times."""

    cancel: bool
    reason: str | None = None
    deadline: datetime | None = None
    heartbeat: timedelta | None = None


class StaleAttemptError(TenantcronError):
    """The attempt has ended without its worker: a report on it changes nothing."""


class OtherDeliveryError(TenantcronError):
    """Another worker has the attempt, from an earlier or a later delivery of its message."""


@dataclass(frozen=True, slots=True)
class _End:
    """A report that ends an attempt, and what becomes of the attempt."""

    report: AttemptReport
    make: Callable[[RunningRemotely], Attempt]


# Raises an error if the worker of an execution sends too many requests.
Admit: TypeAlias = Callable[[UUID], Awaitable[None]]


async def admit_all(_: UUID) -> None:
    """Admit every request."""


class Callbacks:
    """Records the reports of remote workers.

    Concurrent reports share a transaction. A report that is not recorded there is recorded alone:
    its row was locked, its attempt is over, or another report on the same attempt was in the same
    transaction. A report that ends its attempt needs no admission, because there is only one.
    """

    def __init__(self, replica: Replica, admit: Admit = admit_all) -> None:
        self._replica = replica
        self._admit = admit
        self._renew_together = Combiner(self._renew_free, _REPORTS_AT_ONCE)
        self._end_together = Combiner(self._end_free, _REPORTS_AT_ONCE)

    async def heartbeat(self, worker: RemoteWorker, progress: WorkerProgress) -> HeartbeatAnswer:
        """Renew the lease of an attempt; the answer to a timed-out or cancelled one is to stop."""
        await self._admit(worker.execution)
        report = _report(worker, progress)
        async with self._replica.database.awaiting():
            renewal = await self._renew_together(report)
        return await self._renew_alone(report) if renewal is None else _answer(renewal)

    async def complete(
        self, worker: RemoteWorker, result: str | None, progress: WorkerProgress
    ) -> RecordedReport:
        """Record that the work is done, with its result as JSON."""

        def succeeded(running: RunningRemotely) -> Attempt:
            return Attempt(running.claimed, AttemptOutcome.SUCCEEDED, result=result)

        return await self._end(_End(_report(worker, progress), succeeded))

    async def fail(
        self, worker: RemoteWorker, failure: RemoteFailure, progress: WorkerProgress
    ) -> RecordedReport:
        """Record that the work failed; after a request to stop, that it was cancelled."""

        def failed(running: RunningRemotely) -> Attempt:
            return _failed(running, failure)

        return await self._end(_End(_report(worker, progress), failed))

    async def _renew_free(self, reports: Sequence[AttemptReport]) -> list[Renewal | None]:
        first = {report.execution: report for report in reversed(reports)}
        async with self._replica.database.transaction(by_key=True) as connection:
            renewed = await callbacks.renew_free(
                connection, list(first.values()), self._replica.clock()
            )
        return [
            renewed.get(report.execution) if first[report.execution] is report else None
            for report in reports
        ]

    async def _renew_alone(self, report: AttemptReport) -> HeartbeatAnswer:
        async with self._replica.database.transaction(by_key=True) as connection:
            renewal = await callbacks.renew(connection, report, self._replica.clock())
            if renewal is not None:
                return _answer(renewal)
            end = await callbacks.recorded(connection, report, self._replica.clock())
        if end is not None and (end.outcome in _STOPPED or (end.outcome is None and end.timed_out)):
            outcome = AttemptOutcome(end.outcome or _TIMED_OUT)
            return HeartbeatAnswer(cancel=True, reason=outcome.value.lower().replace("_", " "))
        raise _stale(report, end)

    async def _end(self, end: _End) -> RecordedReport:
        async with self._replica.database.awaiting():
            recorded = await self._end_together(end)
        if recorded is not None:
            return recorded
        await self._admit(end.report.execution)
        return await retry_conflicts(lambda: self._end_alone(end))

    async def _end_free(self, ends: Sequence[_End]) -> list[RecordedReport | None]:
        first = {end.report.execution: end for end in reversed(ends)}
        try:
            recorded = await retry_conflicts(lambda: self._end_those_free(first))
        except REFUSED:
            # Each is repeated alone, so that only the refused one fails.
            return [None] * len(ends)
        return [
            recorded.get(end.report.execution) if first[end.report.execution] is end else None
            for end in ends
        ]

    async def _end_those_free(self, ends: Mapping[UUID, _End]) -> dict[UUID, RecordedReport]:
        reports = [end.report for end in ends.values()]
        async with self._replica.database.transaction(by_key=True) as connection:
            running = await callbacks.take_free(connection, reports, self._replica.clock())
            if not running:
                return {}
            attempts = [ends[execution].make(found) for execution, found in running.items()]
            results = await self._write(connection, attempts)
        return self._recorded(attempts, *results)

    async def _end_alone(self, end: _End) -> RecordedReport:
        async with self._replica.database.transaction(by_key=True) as connection:
            running = await callbacks.take(connection, end.report, self._replica.clock())
            if running is None:
                at = self._replica.clock()
                recorded = await callbacks.recorded(connection, end.report, at)
                return _repeated(end.report, recorded)
            attempts = [end.make(running)]
            results = await self._write(connection, attempts)
        return self._recorded(attempts, *results)[end.report.execution]

    async def _write(
        self, connection: AsyncConnection, attempts: Sequence[Attempt]
    ) -> tuple[list[EndedAttempt], Finished]:
        ended, finished = await write_results(connection, self._replica, attempts)
        if finished.waiting:
            # The slots are free, and this process starts nothing itself.
            await claiming.notify(connection, "ended")
        return ended, finished

    def _recorded(
        self, attempts: Sequence[Attempt], ended: Sequence[EndedAttempt], finished: Finished
    ) -> dict[UUID, RecordedReport]:
        self._replica.counts.note_ended(ended, finished)
        report_results(ended, finished)
        states = {result.claimed.id: finished.as_written(result).state for result in ended}
        return {
            attempt.claimed.id: RecordedReport(
                attempt.claimed.attempt, attempt.outcome.value, states[attempt.claimed.id]
            )
            for attempt in attempts
        }


def _report(worker: RemoteWorker, progress: WorkerProgress) -> AttemptReport:
    return AttemptReport(worker.execution, worker.lease, progress, worker.delivery)


def _answer(renewal: Renewal) -> HeartbeatAnswer:
    reason = reason_text(renewal.cancel_reason_code, renewal.cancel_reason)
    return HeartbeatAnswer(
        renewal.cancel, reason if renewal.cancel else None, renewal.deadline, renewal.heartbeat
    )


def _failed(running: RunningRemotely, failure: RemoteFailure) -> Attempt:
    error = storable(failure.message)[:LONGEST_TEXT]
    if running.cancel_requested:
        return Attempt(running.claimed, AttemptOutcome.CANCELLED, running.cancel_reason or error)
    return Attempt(
        running.claimed,
        AttemptOutcome.FAILED,
        error,
        retry_after=failure.retry_after,
        final=not failure.retryable,
    )


def _repeated(report: AttemptReport, end: RecordedEnd | None) -> RecordedReport:
    """Return what an earlier report of the same attempt recorded."""
    if end is None or not end.reported or end.outcome is None:
        raise _stale(report, end)
    return RecordedReport(end.attempt, end.outcome, end.state, repeated=True)


def _stale(report: AttemptReport, end: RecordedEnd | None) -> TenantcronError:
    if report.delivery is not None and end is not None and end.runs and not end.timed_out:
        return OtherDeliveryError(
            f"another worker has the attempt of execution {report.execution}: its message was "
            "delivered twice. Repeat the first heartbeat, which takes over if that worker is silent"
        )
    why = "another attempt has started since"
    if end is not None:
        outcome = end.outcome or (_TIMED_OUT if end.timed_out else "unknown")
        why = f"it has ended as {outcome}"
    return StaleAttemptError(
        f"the attempt of execution {report.execution} is over, {why}: stop, and report nothing"
    )
