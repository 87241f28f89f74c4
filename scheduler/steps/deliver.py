"""Deliver: wrap the call of an HTTP target in a handler.

Timeouts, cancellation and leases therefore work for calls as they do for handlers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tenantcron.actor.model import MANUAL
from tenantcron.core.clock import Clock
from tenantcron.core.egress import read_url
from tenantcron.core.names import Owner
from tenantcron.manifests.policy import Policy
from tenantcron.scheduler.steps.attempts import Attempt, KeyForgotten
from tenantcron.scheduler.steps.idempotency_retention import first_of_series, series_of
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.schedules.targets import HttpTarget
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import execution_attempts
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import Execution
from tenantcron.targets.http import HttpClient, TargetRequest
from tenantcron.targets.registry import Handler, SourceLocation
from tenantcron.targets.responses import ServiceResponse
from tenantcron.targets.signals import Cancelled, WithoutTraceback
from tenantcron.targets.tokens import Tokens

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Returns how long ago the first attempt of a series began.
Begun = Callable[[Claimed, ScheduleSettings], Awaitable[timedelta]]


class CallStopped(WithoutTraceback, Cancelled):
    """The call was cancelled. Its stack trace is of no use."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The handler that makes one call, and the response of the service."""

    handler: Handler
    answer: ServiceResponse = field(default_factory=ServiceResponse)

    def with_answer(self, on_end: Callable[[Attempt], None]) -> Callable[[Attempt], None]:
        """Return a callback that adds the response to the attempt."""
        return lambda attempt: on_end(attempt._replace(answer=self.answer))


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Makes handlers for HTTP targets."""

    caller: HttpClient
    policy: Policy
    begun: Begun
    tokens: Callable[[Claimed, timedelta, Owner | None], Tokens] | None = None

    def __call__(
        self, claimed: Claimed, settings: ScheduleSettings, target: HttpTarget
    ) -> Delivery:
        """Return the handler that delivers this attempt."""
        answer = ServiceResponse()

        async def deliver(execution: Execution) -> None:
            try:
                await self._refuse_forgotten(claimed, settings)
                request = self._request(claimed, settings, target)
                await self.caller.call(request, execution, answer)
            except asyncio.CancelledError:
                raise CallStopped("the call was cancelled") from None

        handler = Handler(claimed.saga_name, deliver, is_async=True, place=_place(target))
        return Delivery(handler, answer)

    def _request(
        self, claimed: Claimed, settings: ScheduleSettings, target: HttpTarget
    ) -> TargetRequest:
        policy = self.policy.for_tenant(claimed.tenant_id)
        return TargetRequest(
            url=target.url,
            method=target.method,
            headers=target.headers,
            auth=target.auth,
            key=idempotency_key(claimed),
            started_at=claimed.started_at,
            timeout=settings.timeout,
            egress=policy.egress,
            allowed_secrets=policy.allowed_secrets,
            allowed_audiences=policy.allowed_audiences,
            tokens=self._tokens(claimed, settings),
        )

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


def _place(target: HttpTarget) -> SourceLocation:
    url = read_url(target.url)
    return SourceLocation("http", target.method, url.place if url else "?", 0)
