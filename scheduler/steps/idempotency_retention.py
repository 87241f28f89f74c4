"""Idempotency retention: never call a target again after it may have forgotten the key.

A target remembers an idempotency key for `idempotency_retention` after the first request. The last
attempt of a series must end before that. `validate` checks the retry settings of a manifest
(TC404). This module checks the delays that are unknown until run time: those that a service or a
handler requests with `Retry`. A series begins with the first attempt, and again when an operator
retries an execution that has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.clock import Clock
from tenantcron.core.durations import format_duration
from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.retry import LONGEST_REASON, NextState
from tenantcron.schedules.execution_reasons import ReasonCode, reason_text
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.store.rows import execution_attempts
from tenantcron.store.rows.execution_attempts import Series
from tenantcron.store.steps.claiming import Claimed, Lease

DEFAULT_RETENTION: Final = timedelta(hours=24)
# A margin below this fraction of the retention is logged.
_SMALL: Final = 0.1
_FRESH_SECONDS: Final = 3600.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedRetry:
    """A failed attempt that is to be retried, with its settings and the decision."""

    attempt: Attempt
    settings: ScheduleSettings
    next_state: NextState


class Retention:
    """Rejects retries that come too late, and measures how close the others come to the limit."""

    def __init__(self, keeps: timedelta = DEFAULT_RETENTION) -> None:
        self.keeps = keeps
        self._least: tuple[float, float] | None = None

    @property
    def margin(self) -> float | None:
        """The retention margin: the seconds that the tightest retry of the last hour has left.

        They count from the latest end of the next attempt. None if there was no retry.
        """
        if self._least is None or monotonic() - self._least[1] > _FRESH_SECONDS:
            return None
        return self._least[0]

    async def hold(
        self, connection: AsyncConnection, clock: Clock, retried: Sequence[PlannedRetry]
    ) -> dict[Lease, NextState]:
        """Return the final decisions for retries that would come too late, by lease."""
        if not retried:
            return {}
        series = [series_of(retry.attempt.claimed, retry.settings) for retry in retried]
        begun = await execution_attempts.begun(connection, series, clock())
        return {
            retry.attempt.claimed.lease: self._too_late(retry)
            for retry in retried
            if not self._fits(retry, begun[retry.attempt.claimed.id])
        }

    def _fits(self, retry: PlannedRetry, begun: timedelta) -> bool:
        margin = self.keeps - begun - retry.next_state.wait - retry.settings.timeout
        if margin < timedelta(0):
            return False
        self._note(retry.attempt.claimed, margin.total_seconds())
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

    def _too_late(self, retry: PlannedRetry) -> NextState:
        before = reason_text(retry.next_state.reason_code, retry.next_state.detail)
        detail = f"{format_duration(self.keeps)} (the attempt before it: {before})"
        return NextState("DEAD", ReasonCode.KEY_FORGOTTEN, detail[:LONGEST_REASON])


def first_of_series(claimed: Claimed, settings: ScheduleSettings) -> int:
    """Return the number of the first attempt of the series."""
    # Each loss since then has added an attempt.
    return claimed.attempts_allowed - claimed.losses - settings.retry.max_attempts + 1


def series_of(claimed: Claimed, settings: ScheduleSettings) -> Series:
    """Return the key by which the database finds the beginning of a series."""
    return Series(
        claimed.id, claimed.scheduled_for, first_of_series(claimed, settings), claimed.started_at
    )
