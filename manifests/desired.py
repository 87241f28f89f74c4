"""Desired: the manifest normalised, every default filled in, every timetable translated."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from tenantcron.core.auth import Auth
from tenantcron.core.names import Owner, SagaName, ScheduleName, TenantId
from tenantcron.core.values import JsonValue
from tenantcron.cron.timetable import Timetable


class Overlap(StrEnum):
    """What happens when the execution before is still running."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"
    CANCEL_RUNNING = "cancel_running"


class CatchUp(StrEnum):
    """What happens to occurrences missed while nothing ran."""

    ONCE = "once"
    NONE = "none"
    ALL = "all"


class Priority(StrEnum):
    """Who goes first among a tenant's waiting executions."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Retry(NamedTuple):
    """How failed attempts are repeated."""

    max_attempts: int
    backoff: timedelta
    max_backoff: timedelta

    def longest(self, timeout: timedelta) -> timedelta:
        """Return the longest time from the start of the first attempt to the end of the last."""
        longest, wait = self.max_attempts * timeout, self.backoff
        for _ in range(self.max_attempts - 1):
            longest += min(self.max_backoff, wait)
            wait = min(self.max_backoff, wait * 2)
        return longest


class Settings(NamedTuple):
    """How the occurrences of a timetable are treated."""

    description: str
    enabled: bool
    spread: timedelta
    overlap: Overlap
    catch_up: CatchUp
    catch_up_window: timedelta
    start_within: timedelta
    timeout: timedelta
    retry: Retry
    auto_pause_after: int
    priority: Priority
    payload: dict[str, JsonValue]
    # None: nobody in particular.
    owner: Owner | None = None


class Timing(NamedTuple):
    """A timetable in its time zone, with its settings."""

    timetable: Timetable
    timezone: str
    settings: Settings

    @property
    def cron(self) -> str:
        """The translation of whatever form the manifest used."""
        return self.timetable.expression


class HttpTarget(NamedTuple):
    """An HTTP endpoint that runs the saga."""

    url: str
    method: str
    headers: dict[str, str]
    auth: Auth | None = None


class DesiredSchedule(NamedTuple):
    """One schedule as the manifest wants it; without a target a Python handler runs the saga."""

    name: ScheduleName
    saga: SagaName
    timing: Timing
    target: HttpTarget | None


class Desired(NamedTuple):
    """All schedules of one tenant as the manifest wants them, by name."""

    tenant: TenantId
    schedules: tuple[DesiredSchedule, ...]
