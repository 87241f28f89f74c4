"""Retention: nothing is sent again once its target may have forgotten the idempotency key.

A target remembers a key for `idempotency_retention` after it first saw it. So the last attempt of a
series must have ended by then. `validate` sees to it for what a manifest says (TC404); here it is
seen to for what nobody could know before: how long a service, or a handler that raises `Retry`,
wants to be left alone. A series begins with the first attempt, and again when an operator retries
an execution that had ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.clock import Clock
from tenantcron.core.durations import format_duration
from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.retry import LONGEST_REASON, Settled
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.store.rows import execution_attempts
from tenantcron.store.rows.execution_attempts import Series
from tenantcron.store.steps.claiming import Claimed, Lease

DEFAULT_RETENTION: Final = timedelta(hours=24)
# Less than this part of the retention is worth a line in the log.
_SMALL: Final = 0.1
_FRESH_SECONDS: Final = 3600.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Retried:
    """An attempt after which another is planned, and what decides on that."""

    attempt: Attempt
    settings: ScheduleSettings
    settled: Settled


class Retention:
    """Keeps retries inside of what targets remember, and says how close they come to its end."""

    def __init__(self, keeps: timedelta = DEFAULT_RETENTION) -> None:
        self.keeps = keeps
        self._least: tuple[float, float] | None = None

    @property
    def margin(self) -> float | None:
        """The retention margin: seconds that the tightest retry of the last hour has to spare.

        They are counted from the latest end of the next attempt. None: there was no retry.
        """
        if self._least is None or monotonic() - self._least[1] > _FRESH_SECONDS:
            return None
        return self._least[0]

    async def hold(
        self, connection: AsyncConnection, clock: Clock, retried: Sequence[Retried]
    ) -> dict[Lease, Settled]:
        """Return what becomes of executions whose retry would come too late, by their leases."""
        if not retried:
            return {}
        series = [series_of(one.attempt.claimed, one.settings) for one in retried]
        begun = await execution_attempts.begun(connection, series, clock())
        return {
            one.attempt.claimed.lease: self._too_late(one)
            for one in retried
            if not self._fits(one, begun[one.attempt.claimed.id])
        }

    def _fits(self, one: Retried, begun: timedelta) -> bool:
        margin = self.keeps - begun - one.settled.wait - one.settings.timeout
        if margin < timedelta(0):
            return False
        self._note(one.attempt.claimed, margin.total_seconds())
        return True

    def _note(self, claimed: Claimed, margin: float) -> None:
        if self.margin is None or margin <= self.margin:
            self._least = (margin, monotonic())
        if margin < _SMALL * self.keeps.total_seconds():
            log.warning(
                "retention_margin_small",
                tenant=claimed.tenant_id,
                schedule=claimed.schedule_name,
                execution=str(claimed.id),
                margin_seconds=round(margin, 3),
            )

    def _too_late(self, one: Retried) -> Settled:
        why = f"{forgotten(self.keeps)} (the attempt before it: {one.settled.reason})"
        return replace(one.settled, state="DEAD", reason=why[:LONGEST_REASON], wait=timedelta(0))


def forgotten(keeps: timedelta) -> str:
    """Say why there is no other attempt."""
    return (
        f"another attempt would come when the target may have forgotten the idempotency key, "
        f"which it remembers for {format_duration(keeps)}"
    )


def first_of_series(claimed: Claimed, settings: ScheduleSettings) -> int:
    """Return the number of the attempt that its series began with."""
    # Each loss since then has added an attempt.
    return claimed.attempts_allowed - claimed.losses - settings.retry.max_attempts + 1


def series_of(claimed: Claimed, settings: ScheduleSettings) -> Series:
    """Return what the database finds the beginning of a series by."""
    return Series(
        claimed.id, claimed.scheduled_for, first_of_series(claimed, settings), claimed.started_at
    )
