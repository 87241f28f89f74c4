"""Finish: write results in batches; only the holder of the lease can write a result.

`store/steps/finishing.py` has the protocol. This module decides the next state of each execution,
and passes on after how many consecutive failures its schedule is paused.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID, uuid4

import structlog
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.typing import FilteringBoundLogger

from tenantcron.actor.attribution import Attribution
from tenantcron.core.durations import format_duration
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.definitions import DefinitionResult, Readable, UnreadableError
from tenantcron.scheduler.steps.idempotency_retention import PlannedRetry
from tenantcron.scheduler.steps.retry import NextState, next_state, next_state_after_loss
from tenantcron.schedules.execution_reasons import ReasonCode, reason_text
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.prepared import FEW
from tenantcron.store.rows import audit_records, live_logs
from tenantcron.store.rows.executions import State
from tenantcron.store.steps import claiming, finishing
from tenantcron.store.steps.finishing import EndedAttempt, Expired, Finished
from tenantcron.store.steps.suspects import kills

log: FilteringBoundLogger = structlog.get_logger(__name__)

# Errors caused by the values of a row. All others are errors of the database.
REFUSED = (DataError, IntegrityError)

_Finish = Callable[
    [AsyncConnection, Replica, Sequence[Attempt]], Awaitable[tuple[list[EndedAttempt], Finished]]
]

_LOST_A_BATCH = 200
_AT_ONCE = timedelta(0)


async def finish_batch(replica: Replica, attempts: Sequence[Attempt]) -> Finished:
    """Write the results of attempts in one transaction."""
    is_small = len(attempts) <= FEW
    async with replica.database.transaction(by_key=True, is_small=is_small) as connection:
        ended, finished = await write_results(connection, replica, attempts)
        # Rare: most attempts end before their log is stored.
        if stored := [attempt.claimed for attempt in attempts if attempt.has_live_log]:
            await live_logs.forget(connection, stored)
    replica.counts.note_ended(ended, finished)
    recorded = [result.claimed for result in ended if not finished.is_refused(result.claimed)]
    replica.recent.note_ended(recorded)
    report_results(ended, finished)
    return finished


async def recover_lost(replica: Replica) -> int:
    """End the attempts of workers whose leases have expired, and return their number."""
    try:
        return await _recover(replica, write_results)
    except REFUSED:
        return await _recover(replica, _finish_one_by_one)


async def _recover(replica: Replica, finish: _Finish) -> int:
    async with replica.database.transaction(by_key=True) as connection:
        expired = await finishing.take_expired(connection, _LOST_A_BATCH, replica.clock())
        if not expired:
            return 0
        logs = await live_logs.take(connection, [execution.claimed for execution in expired])
        attempts = [
            _lost(execution)._replace(log=logs.get(execution.claimed.id)) for execution in expired
        ]
        ended, finished = await finish(connection, replica, attempts)
        # Each replica runs only a few suspects at a time, so notify all of them.
        await claiming.notify(connection, claiming.RECOVERED)
    recovered = {result.claimed.lease: result for result in ended}
    for lease in finished.refused:
        del recovered[lease]
    for execution in expired:
        if execution.claimed.lease in recovered:
            _report_loss(execution, recovered[execution.claimed.lease])
    replica.counts.note_ended(ended, finished)
    replica.counts.leases_recovered += sum(ended.is_loss for ended in recovered.values())
    report_results(ended, finished)
    return len(recovered)


def _report_loss(expired: Expired, ended: EndedAttempt) -> None:
    claimed = expired.claimed
    if expired.remote is not None:
        log.warning(
            "callback_missing",
            tenant=claimed.tenant_id,
            schedule=claimed.schedule_name,
            execution=str(claimed.id),
            attempt=claimed.attempt,
            timed_out=expired.remote.timed_out,
        )
        return
    log.warning(
        "worker_lost",
        worker=expired.worker_id,
        tenant=claimed.tenant_id,
        schedule=claimed.schedule_name,
        execution=str(claimed.id),
        losses=claimed.losses + 1,
        blamed=kills(ended.suspicion),
    )


def _lost(expired: Expired) -> Attempt:
    claimed, remote = expired.claimed, expired.remote
    outcome = AttemptOutcome.CANCELLED if expired.cancel_requested else AttemptOutcome.LOST
    if remote is None:
        return Attempt(claimed, outcome, reason_text(ReasonCode.WORKER_LOST, None))
    if remote.timed_out and not expired.cancel_requested:
        why = f"timed out after {format_duration(remote.timeout)}"
        return Attempt(claimed, AttemptOutcome.TIMED_OUT, why)
    silent = ReasonCode.HEARTBEAT_MISSED, format_duration(remote.heartbeat)
    return Attempt(
        claimed,
        outcome,
        reason_text(*silent),
        why=silent if outcome is AttemptOutcome.LOST else None,
    )


async def write_results(
    connection: AsyncConnection, replica: Replica, attempts: Sequence[Attempt]
) -> tuple[list[EndedAttempt], Finished]:
    """Decide what becomes of the executions, and write that in the caller's transaction."""
    ended = await _decide_all(connection, replica, attempts)
    at = replica.clock()
    if dead := [result for result in ended if result.state is State.DEAD]:
        # An auto-pause is recorded with its actor and the execution that caused it.
        await audit_records.act(connection, Attribution(replica.actor, _part_of(dead)))
    own = replica.capabilities
    finished = await finishing.finish(
        connection,
        ended,
        requires=None if own.patterns else own.named,
        actor_id=replica.actor.id,
        at=at,
    )
    return ended, finished


def _part_of(dead: Sequence[EndedAttempt]) -> UUID:
    """Return the correlation id: the id of the failed execution, or a new id for several."""
    return dead[0].claimed.id if len(dead) == 1 else uuid4()


async def _finish_one_by_one(
    connection: AsyncConnection, replica: Replica, attempts: Sequence[Attempt]
) -> tuple[list[EndedAttempt], Finished]:
    """Finish attempts separately, so that a rejected one does not block the recovery of others."""
    all_ended: list[EndedAttempt] = []
    total = Finished(frozenset(), (), waiting=False)
    for attempt in attempts:
        try:
            async with connection.begin_nested():
                ended, finished = await write_results(connection, replica, [attempt])
        except REFUSED as error:
            execution = str(attempt.claimed.id)
            log.error("result_refused", execution=execution, error=first_line(error.orig))
            continue
        all_ended += ended
        total = total + finished
    return all_ended, total


async def _decide_all(
    connection: AsyncConnection, replica: Replica, attempts: Sequence[Attempt]
) -> list[EndedAttempt]:
    """Decide the next state of each execution. Only those that did not succeed need settings."""
    failed = [attempt for attempt in attempts if not attempt.succeeded]
    ids = {attempt.claimed.definition_id for attempt in failed}
    definitions = await replica.definitions.read(connection, ids)
    decisions = [
        _decide(attempt, definitions[attempt.claimed.definition_id], replica) for attempt in failed
    ]
    retried = [decision.retried for decision in decisions if decision.retried is not None]
    too_late = await replica.retention.hold(connection, replica.clock, retried)
    ended = [
        _ended(decision, too_late.get(decision.attempt.claimed.lease, decision.next_state))
        for decision in decisions
    ]
    return [_succeeded(attempt) for attempt in attempts if attempt.succeeded] + ended


def _succeeded(attempt: Attempt) -> EndedAttempt:
    ended = EndedAttempt(
        attempt.claimed, State.SUCCEEDED, None, None, _AT_ONCE, "SUCCEEDED", None, 0
    )
    return _with_output(ended, attempt)


def _with_output(ended: EndedAttempt, attempt: Attempt) -> EndedAttempt:
    """Add the log, the result and the response of an attempt, if there are any."""
    if attempt.log or attempt.result:
        ended = ended._replace(log=attempt.log, result=attempt.result)
    answer = attempt.answer
    if answer is None:
        return ended
    return ended._replace(http_status=answer.status, answer=answer.text)


class _AttemptDecision(NamedTuple):
    """An attempt and its next state; `retried` if the idempotency retention applies to it."""

    attempt: Attempt
    next_state: NextState
    suspicion: int = 0
    auto_pause_after: int = 0
    retried: PlannedRetry | None = None


def _decide(attempt: Attempt, definition: DefinitionResult, replica: Replica) -> _AttemptDecision:
    if isinstance(definition, UnreadableError):
        return _AttemptDecision(attempt, NextState("DEAD", ReasonCode.UNREADABLE, str(definition)))
    settings = definition.settings
    suspicion = _suspicion(attempt, definition)
    if attempt.is_loss:
        state = next_state_after_loss(kills(suspicion), replica.settings.kills_allowed)
    else:
        state = next_state(attempt, settings, replica.random)
    # The retry settings of a manifest are validated. A delay that a handler requests is not.
    is_bound = definition.target is not None or attempt.retry_after is not None
    held = state.state == "RETRYING" and is_bound
    retried = PlannedRetry(attempt, settings, state) if held else None
    return _AttemptDecision(attempt, state, suspicion, settings.auto_pause_after, retried)


def _suspicion(attempt: Attempt, definition: Readable) -> int:
    """Return the number of consecutive losses. A target cannot kill a worker."""
    is_suspect = attempt.is_loss and definition.target is None
    return attempt.claimed.suspicion + 1 if is_suspect else 0


def _ended(decision: _AttemptDecision, state: NextState) -> EndedAttempt:
    attempt = decision.attempt
    ended = EndedAttempt(
        claimed=attempt.claimed,
        state=State(state.state),
        reason_code=state.reason_code,
        detail=state.detail,
        wait=state.wait,
        outcome=attempt.outcome.value,
        error=attempt.error,
        auto_pause_after=decision.auto_pause_after,
        suspicion=decision.suspicion,
        is_loss=attempt.is_loss,
    )
    return _with_output(ended, attempt)


class _Line(NamedTuple):
    event: str
    level: int


_LINES = {
    State.SUCCEEDED: _Line("execution_succeeded", logging.INFO),
    State.RETRYING: _Line("execution_retrying", logging.WARNING),
    State.DEAD: _Line("execution_dead", logging.ERROR),
    State.CANCELLED: _Line("execution_cancelled", logging.INFO),
    State.SKIPPED: _Line("execution_skipped", logging.INFO),
}
_STALE = _Line("stale_result_refused", logging.WARNING)


def report_results(ended: Sequence[EndedAttempt], finished: Finished) -> None:
    """Log the results."""
    logger = log.bind()
    for result in map(finished.as_written, ended) if finished.cancelled else ended:
        line = _STALE if finished.is_refused(result.claimed) else _LINES[result.state]
        # Checked before the fields are built, because there are thousands of results a second.
        if logger.is_enabled_for(line.level):
            logger.log(line.level, line.event, **_fields(result))
    paused = set(finished.paused)
    for name in {
        (result.claimed.tenant_id, result.claimed.schedule_name)
        for result in ended
        if result.claimed.schedule_id in paused
    }:
        log.error("schedule_auto_paused", tenant=name[0], schedule=name[1])


def _why(ended: EndedAttempt) -> dict[str, str]:
    if ended.reason_code is None or ended.reason is None:
        return {}
    return {"reason_code": ended.reason_code, "reason": ended.reason}


def _fields(ended: EndedAttempt) -> dict[str, str | int]:
    claimed = ended.claimed
    return {
        "tenant": claimed.tenant_id,
        "schedule": claimed.schedule_name,
        "saga": claimed.saga_name,
        "execution": str(claimed.id),
        "attempt": claimed.attempt,
        **_why(ended),
    }
