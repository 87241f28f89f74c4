"""Deliver: wrap an attempt at a target in a handler.

Timeouts, cancellation and leases therefore work for calls as they do for handlers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from tenantcron.actor.model import MANUAL
from tenantcron.core.clock import Clock
from tenantcron.core.egress import read_url
from tenantcron.core.names import Owner
from tenantcron.core.targets import OtherTarget, Target
from tenantcron.manifests.policy import Policy
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome, KeyForgotten
from tenantcron.scheduler.steps.idempotency_retention import first_of_series, series_of
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_attempts
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.contract import (
    Callback,
    Delivered,
    HandOver,
    TargetCall,
    TargetRunner,
)
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler, SourceLocation
from tenantcron.targets.responses import ServiceResponse
from tenantcron.targets.signals import Cancelled, WithoutTraceback
from tenantcron.targets.tokens import Tokens

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Returns how long ago the first attempt of a series began.
Begun = Callable[[Claimed, ScheduleSettings], Awaitable[timedelta]]


class HandsOver(Protocol):
    """Hands attempts over to remote workers."""

    async def __call__(
        self,
        claimed: Claimed,
        settings: ScheduleSettings,
        heartbeat: timedelta,
        first: timedelta | None = None,
        /,
    ) -> Callback:
        """Hand an attempt over, as `HandOver` describes."""


class CallStopped(WithoutTraceback, Cancelled):
    """The call was cancelled. Its stack trace is of no use."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The handler that makes one attempt, and the response of the service."""

    handler: Handler
    result: "DeliveryResult"

    def with_answer(self, on_end: Callable[[Attempt], None]) -> Callable[[Attempt], None]:
        """Return a callback that adds the response to the attempt."""
        result = self.result

        def end(attempt: Attempt) -> None:
            on_end(attempt._replace(answer=result.answer, accepted=result.leaves(attempt)))

        return end


@dataclass(slots=True)
class DeliveryResult:
    """The response of the service, and how the runner left the attempt."""

    answer: ServiceResponse = field(default_factory=ServiceResponse)
    ending: Delivered = Delivered.DONE
    # Whether the lease belongs to the attempt itself.
    handed_over: bool = False

    def leaves(self, attempt: Attempt) -> bool:
        """Whether a remote worker ends the attempt, or its lease expires.

        A replica that stops during the call does not know whether the worker has the request. It
        writes nothing, as if it had been killed.
        """
        if attempt.outcome in (AttemptOutcome.INTERRUPTED, AttemptOutcome.LOST):
            return self.handed_over
        return self.ending is Delivered.ACCEPTED and attempt.succeeded


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Makes handlers for targets of the kinds that this replica serves."""

    runners: Mapping[str, TargetRunner]
    policy: Policy
    begun: Begun
    tokens: Callable[[Claimed, timedelta, Owner | None], Tokens] | None = None
    # None: attempts cannot be handed over to remote workers.
    hand_overs: HandsOver | None = None

    def __call__(
        self, claimed: Claimed, settings: ScheduleSettings, target: Target
    ) -> Delivery | None:
        """Return the handler that delivers this attempt; None if the kind is not served here."""
        runner = self.runners.get(target.kind)
        if runner is None:
            return None
        result = DeliveryResult()

        async def deliver(execution: Execution) -> None:
            try:
                await self._refuse_forgotten(claimed, settings)
                call = self._call(claimed, settings, target, execution, result)
                result.ending = await runner.run(call)
            except asyncio.CancelledError:
                raise CallStopped("the call was cancelled") from None

        handler = Handler(claimed.saga_name, deliver, is_async=True, place=_place(target))
        return Delivery(handler, result)

    def _call(
        self,
        claimed: Claimed,
        settings: ScheduleSettings,
        target: Target,
        execution: Execution,
        result: DeliveryResult,
    ) -> TargetCall:
        policy = self.policy.for_tenant(claimed.tenant_id)
        return TargetCall(
            execution=execution,
            target=target,
            key=idempotency_key(claimed),
            started_at=claimed.started_at,
            timeout=settings.timeout,
            egress=policy.egress,
            allowed_secrets=policy.allowed_secrets,
            allowed_audiences=policy.allowed_audiences,
            allowed_celery_tasks=policy.allowed_celery_tasks,
            allowed_temporal_workflows=policy.allowed_temporal_workflows,
            tokens=self._tokens(claimed, settings),
            answer=result.answer,
            hand_over=self._hand_over(claimed, settings, result),
        )

    def _hand_over(
        self, claimed: Claimed, settings: ScheduleSettings, result: DeliveryResult
    ) -> HandOver | None:
        hand_overs = self.hand_overs
        if hand_overs is None:
            return None

        async def hand_over(heartbeat: timedelta, first: timedelta | None = None, /) -> Callback:
            callback = await hand_overs(claimed, settings, heartbeat, first)
            result.handed_over = True
            return callback

        return hand_over

    def _tokens(self, claimed: Claimed, settings: ScheduleSettings) -> Tokens | None:
        if self.tokens is None:
            return None
        return self.tokens(claimed, settings.timeout, settings.owner)

    async def _refuse_forgotten(self, claimed: Claimed, settings: ScheduleSettings) -> None:
        """Fail a retry that waited so long for a slot or a scheduler that its key is forgotten."""
        if claimed.attempt == first_of_series(claimed, settings):
            return
        keeps = self.policy.idempotency_retention
        if await self.begun(claimed, settings) + settings.timeout > keeps:
            raise KeyForgotten(keeps)


def begun_in(database: Database, clock: Clock) -> Begun:
    """Return a function that reads from the database when a series of attempts began."""

    async def begun(claimed: Claimed, settings: ScheduleSettings) -> timedelta:
        async with database.transaction() as connection:
            series = [series_of(claimed, settings)]
            return (await execution_attempts.begun(connection, series, clock()))[claimed.id]

    return begun


def idempotency_key(claimed: Claimed) -> str:
    """Return the idempotency key of an execution.

    The key of a manual trigger includes the execution id: two triggers, or a trigger and an
    occurrence, can have the same millisecond.
    """
    milliseconds = (claimed.scheduled_for - _EPOCH) // timedelta(milliseconds=1)
    key = f"sched:{claimed.schedule_id}:{milliseconds}"
    return f"{key}:{claimed.id}" if claimed.actor.source == MANUAL else key


def _place(target: Target) -> SourceLocation:
    if isinstance(target, OtherTarget):
        return SourceLocation(target.kind, "", "?", 0)
    url = read_url(target.url)
    return SourceLocation(target.kind, target.method, url.place if url else "?", 0)
