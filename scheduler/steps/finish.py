"""Finish: results are written down, many at a time, by whoever still holds the lease.

`store/steps/finishing.py` has the protocol. This module decides what a result makes of its
execution, and what consecutive failures make of its schedule.
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
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.definitions import DefinitionResult, Readable, UnreadableError
from tenantcron.scheduler.steps.idempotency_retention import PlannedRetry
from tenantcron.scheduler.steps.retry import Settled, settle, settle_loss
from tenantcron.schedules.reasons import ReasonCode, reason_text
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.rows import audit_records
from tenantcron.store.rows.executions import State
from tenantcron.store.steps import claiming, finishing
from tenantcron.store.steps.finishing import Ended, Expired, Finished
from tenantcron.store.steps.suspects import kills

log: FilteringBoundLogger = structlog.get_logger(__name__)

# What is in the rows. Any other error is about the database.
REFUSED = (DataError, IntegrityError)

_Finish = Callable[
    [AsyncConnection, Replica, Sequence[Attempt]], Awaitable[tuple[list[Ended], Finished]]
]

_LOST_A_BATCH = 200
_AT_ONCE = timedelta(0)


async def finish_batch(replica: Replica, attempts: Sequence[Attempt]) -> Finished:
    """Write down how attempts ended, in one transaction."""
    async with replica.database.transaction(by_key=True) as connection:
        ended, finished = await _finish(connection, replica, attempts)
    replica.counts.note_ended(ended, finished)
    written = [one.claimed for one in ended if not finished.is_refused(one.claimed)]
    replica.recent.note_ended(written)
    _report(ended, finished)
    return finished


async def recover_lost(replica: Replica) -> int:
    """End the attempts of workers that were not heard of in time; return how many there were."""
    try:
        return await _recover(replica, _finish)
    except REFUSED:
        return await _recover(replica, _finish_one_by_one)


async def _recover(replica: Replica, finish: _Finish) -> int:
    async with replica.database.transaction(by_key=True) as connection:
        expired = await finishing.take_expired(connection, _LOST_A_BATCH, replica.clock())
        if not expired:
            return 0
        ended, finished = await finish(connection, replica, [_lost(one) for one in expired])
        # Suspects run a few at a time on each replica, so all of them are wanted.
        await claiming.notify(connection, "recovered")
    recovered = {one.claimed.lease: one for one in ended}
    for lease in finished.refused:
        del recovered[lease]
    for one in expired:
        if one.claimed.lease in recovered:
            _report_loss(one, recovered[one.claimed.lease])
    replica.counts.note_ended(ended, finished)
    replica.counts.leases_recovered += len(recovered)
    _report(ended, finished)
    return len(recovered)


def _report_loss(expired: Expired, ended: Ended) -> None:
    claimed = expired.claimed
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
    outcome = AttemptOutcome.CANCELLED if expired.cancel_requested else AttemptOutcome.LOST
    return Attempt(expired.claimed, outcome, reason_text(ReasonCode.WORKER_LOST, None))


async def _finish(
    connection: AsyncConnection, replica: Replica, attempts: Sequence[Attempt]
) -> tuple[list[Ended], Finished]:
    ended = await _settle(connection, replica, attempts)
    at = replica.clock()
    if dead := [one for one in ended if one.state is State.DEAD]:
        # A pause for too many failures is on record, with who set it and as a part of what.
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


def _part_of(dead: Sequence[Ended]) -> UUID:
    """Return the id of the one that failed; several that failed at once have one of their own."""
    return dead[0].claimed.id if len(dead) == 1 else uuid4()


async def _finish_one_by_one(
    connection: AsyncConnection, replica: Replica, attempts: Sequence[Attempt]
) -> tuple[list[Ended], Finished]:
    """One that the database refuses must not keep the others from being recovered."""
    all_ended: list[Ended] = []
    whole = Finished(frozenset(), (), waiting=False)
    for attempt in attempts:
        try:
            async with connection.begin_nested():
                ended, finished = await _finish(connection, replica, [attempt])
        except REFUSED as error:
            execution = str(attempt.claimed.id)
            log.error("result_refused", execution=execution, error=first_line(error.orig))
            continue
        all_ended += ended
        whole = whole + finished
    return all_ended, whole


async def _settle(
    connection: AsyncConnection, replica: Replica, attempts: Sequence[Attempt]
) -> list[Ended]:
    """Decide what follows from each; what has succeeded needs no look at its settings."""
    ids = {one.claimed.definition_id for one in attempts if not one.succeeded}
    definitions = await replica.definitions.read(connection, ids)
    judged = [
        _judged(one, definitions[one.claimed.definition_id], replica)
        for one in attempts
        if not one.succeeded
    ]
    retried = [one.retried for one in judged if one.retried is not None]
    too_late = await replica.retention.hold(connection, replica.clock, retried)
    ended = [_ended(one, too_late.get(one.attempt.claimed.lease, one.settled)) for one in judged]
    return [_succeeded(one) for one in attempts if one.succeeded] + ended


def _succeeded(attempt: Attempt) -> Ended:
    ended = Ended(attempt.claimed, State.SUCCEEDED, None, None, _AT_ONCE, "SUCCEEDED", None, 0)
    return _with_output(ended, attempt)


def _with_output(ended: Ended, attempt: Attempt) -> Ended:
    """Add what the attempt left behind; most leave nothing."""
    if attempt.log or attempt.result:
        ended = ended._replace(log=attempt.log, result=attempt.result)
    answer = attempt.answer
    if answer is None:
        return ended
    return ended._replace(http_status=answer.status, answer=answer.text)


class _AttemptDecision(NamedTuple):
    """An attempt, what follows from it, and whether the retention has a word in that."""

    attempt: Attempt
    settled: Settled
    suspicion: int = 0
    auto_pause_after: int = 0
    retried: PlannedRetry | None = None


def _judged(attempt: Attempt, definition: DefinitionResult, replica: Replica) -> _AttemptDecision:
    if isinstance(definition, UnreadableError):
        return _AttemptDecision(attempt, Settled("DEAD", ReasonCode.UNREADABLE, str(definition)))
    settings = definition.settings
    suspicion = _suspicion(attempt, definition)
    if attempt.outcome is AttemptOutcome.LOST:
        settled = settle_loss(kills(suspicion), replica.settings.kills_allowed)
    else:
        settled = settle(attempt, settings, replica.random)
    # A handler may retry as long as its manifest says, unless it puts the next attempt off.
    is_bound = definition.target is not None or attempt.retry_after is not None
    held = settled.state == "RETRYING" and is_bound
    retried = PlannedRetry(attempt, settings, settled) if held else None
    return _AttemptDecision(attempt, settled, suspicion, settings.auto_pause_after, retried)


def _suspicion(attempt: Attempt, definition: Readable) -> int:
    """Return how many attempts in a row were lost; a target runs elsewhere and kills no worker."""
    is_suspect = attempt.outcome is AttemptOutcome.LOST and definition.target is None
    return attempt.claimed.suspicion + 1 if is_suspect else 0


def _ended(judged: _AttemptDecision, settled: Settled) -> Ended:
    attempt = judged.attempt
    ended = Ended(
        claimed=attempt.claimed,
        state=State(settled.state),
        reason_code=settled.reason_code,
        detail=settled.detail,
        wait=settled.wait,
        outcome=attempt.outcome.value,
        error=attempt.error,
        auto_pause_after=judged.auto_pause_after,
        suspicion=judged.suspicion,
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


def _report(ended: Sequence[Ended], finished: Finished) -> None:
    logger = log.bind()
    for one in map(finished.as_written, ended) if finished.cancelled else ended:
        line = _STALE if finished.is_refused(one.claimed) else _LINES[one.state]
        # Asked before the line is put together: thousands a second are of no interest.
        if logger.is_enabled_for(line.level):
            logger.log(line.level, line.event, **_fields(one))
    paused = set(finished.paused)
    for name in {
        (one.claimed.tenant_id, one.claimed.schedule_name)
        for one in ended
        if one.claimed.schedule_id in paused
    }:
        log.error("schedule_auto_paused", tenant=name[0], schedule=name[1])


def _why(ended: Ended) -> dict[str, str]:
    if ended.reason_code is None or ended.reason is None:
        return {}
    return {"reason_code": ended.reason_code, "reason": ended.reason}


def _fields(ended: Ended) -> dict[str, str | int]:
    claimed = ended.claimed
    return {
        "tenant": claimed.tenant_id,
        "schedule": claimed.schedule_name,
        "saga": claimed.saga_name,
        "execution": str(claimed.id),
        "attempt": claimed.attempt,
        **_why(ended),
    }
